// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"fmt"
	"slices"
	"strings"
)

// A Part is one program.
type Part struct {
	// Name is the file name of the binary and the name on the command line; unique in the catalogue.
	Name string
	// Folder is the folder under tools/parts whose go.mod pins the part.
	Folder string
	// Module is the module path whose version is the part's version.
	Module string
	// Package is the main package, or the tested one if Test is set, or "" for a part made from C sources, or for a File.
	Package string
	// Test makes the part the test binary of Package.
	Test bool
	// Tags are Go build tags.
	Tags []string
	// Cgo links the part statically against the C library of the machine that builds; otherwise cgo is off.
	Cgo bool
	// Vars are the values given to the linker with -X. "{version}" stands for the version with its leading v, "{major}" and
	// "{minor}" for its first two numbers.
	Vars []string
	// CSources are the C files of the part, relative to the module's root.
	CSources []string
	// CFlags are given to the C compiler; "{version}" as in Vars.
	CFlags []string
	// File makes the part a file of the module, as it is there, by its path relative to the module's root.
	File string
	// Needs are the system packages the build of this part needs, by the names of debian.Known.
	Needs []string
}

// A Set is a group of parts built for one purpose, with the system packages needed to run them.
type Set struct {
	Name  string
	Why   string
	Parts []string
	Needs []string
}

const kubernetes = "k8s.io/kubernetes"

func kubernetesPart(name, pkg string) Part {
	return Part{
		Name: name, Folder: "kubernetes", Module: kubernetes, Package: kubernetes + "/" + pkg,
		// Without these the API server reports v0.0.0 and clients refuse to negotiate with it.
		Vars: []string{
			"k8s.io/component-base/version.gitVersion={version}",
			"k8s.io/component-base/version.gitMajor={major}",
			"k8s.io/component-base/version.gitMinor={minor}",
		},
	}
}

func kubernetesTest(name, pkg string) Part {
	p := kubernetesPart(name, pkg)
	p.Test = true
	return p
}

// openAPI is the description of the API by the version of Kubernetes that a folder pins.
func openAPI(folder, version string) Part {
	return Part{Name: "openapi-" + version + ".json", Folder: folder, Module: kubernetes, File: "api/openapi-spec/swagger.json"}
}

func containerdPart(name string) Part {
	const module = "github.com/containerd/containerd/v2"
	return Part{
		Name: name, Folder: "containerd", Module: module, Package: module + "/cmd/" + name,
		// These snapshotters need C libraries and kernel modules that no test uses.
		Tags: []string{"no_btrfs", "no_devmapper", "no_zfs"},
		// CRI reports this value, and it ends in node.status.nodeInfo.containerRuntimeVersion.
		Vars: []string{module + "/version.Version={version}"},
	}
}

func cniPart(kind, name string) Part {
	const module = "github.com/containernetworking/plugins"
	return Part{
		Name: name, Folder: "cni", Module: module, Package: module + "/plugins/" + kind + "/" + name,
		Vars: []string{module + "/pkg/utils/buildversion.BuildVersion={version}"},
	}
}

func goPart(name, folder, module, dir string) Part {
	return Part{Name: name, Folder: folder, Module: module, Package: strings.TrimSuffix(module+"/"+dir, "/")}
}

// Catalogue returns every part, in the order in which "all" builds them: small ones that unblock others come first.
func Catalogue() []Part {
	crictl := goPart("crictl", "crictl", "sigs.k8s.io/cri-tools", "cmd/crictl")
	crictl.Vars = []string{"sigs.k8s.io/cri-tools/pkg/version.Version={version}"}
	helm := goPart("helm", "helm", "helm.sh/helm/v4", "cmd/helm")
	helm.Vars = []string{"helm.sh/helm/v4/internal/version.version={version}"}
	gotestsum := goPart("gotestsum", "gotestsum", "gotest.tools/gotestsum", "")
	gotestsum.Vars = []string{"gotest.tools/gotestsum/cmd.version={version}"}

	return []Part{
		goPart("protoc-gen-go", "protoc", "google.golang.org/protobuf", "cmd/protoc-gen-go"),
		goPart("protoc-gen-go-grpc", "protoc", "google.golang.org/grpc/cmd/protoc-gen-go-grpc", ""),
		goPart("buf", "buf", "github.com/bufbuild/buf", "cmd/buf"),
		gotestsum,
		helm,
		goPart("helm-unittest", "helm-unittest", "github.com/helm-unittest/helm-unittest", "cmd/helm-unittest"),
		goPart("kubeconform", "kubeconform", "github.com/yannh/kubeconform", "cmd/kubeconform"),
		openAPI("kubernetes-1.35", "1.35"),
		openAPI("kubernetes-1.36", "1.36"),
		openAPI("kubernetes", "1.37"),
		goPart("golangci-lint", "golangci-lint", "github.com/golangci/golangci-lint/v2", "cmd/golangci-lint"),

		cniPart("main", "bridge"),
		cniPart("main", "loopback"),
		cniPart("ipam", "host-local"),
		cniPart("meta", "portmap"),
		cniPart("main", "ptp"),
		cniPart("meta", "firewall"),
		cniPart("meta", "bandwidth"),
		{
			Name: "runc", Folder: "runc", Module: "github.com/opencontainers/runc", Package: "github.com/opencontainers/runc",
			Tags: []string{"netgo", "osusergo", "seccomp"}, Cgo: true,
			Needs: []string{"gcc", "libc6-dev", "libseccomp-dev", "pkg-config"},
		},
		containerdPart("containerd"),
		containerdPart("ctr"),
		containerdPart("containerd-shim-runc-v2"),
		crictl,
		goPart("etcd", "etcd", "go.etcd.io/etcd/server/v3", ""),
		{
			Name: "pause", Folder: "kubernetes", Module: kubernetes, CSources: []string{"build/pause/linux/pause.c"},
			CFlags: []string{"-Os", "-Wall", "-Werror", "-static", "-s", "-DVERSION={version}"},
			Needs:  []string{"gcc", "libc6-dev"},
		},
		kubernetesPart("kube-apiserver", "cmd/kube-apiserver"),
		kubernetesPart("kube-controller-manager", "cmd/kube-controller-manager"),
		kubernetesPart("kube-scheduler", "cmd/kube-scheduler"),
		kubernetesPart("kubectl", "cmd/kubectl"),
		kubernetesPart("agnhost", "test/images/agnhost"),
		kubernetesPart("kubelet", "cmd/kubelet"),
		kubernetesTest("e2e.test", "test/e2e"),
		goPart("ginkgo", "kubernetes", "github.com/onsi/ginkgo/v2", "ginkgo"),
	}
}

// Sets returns the named groups of parts.
func Sets() []Set {
	return []Set{
		{Name: "generate", Why: "code generation", Parts: []string{"protoc-gen-go", "protoc-gen-go-grpc", "buf"}},
		{Name: "lint", Why: "make lint", Parts: []string{"golangci-lint"}},
		{
			Name: "unit", Why: "make unit",
			Parts: []string{"gotestsum", "helm", "helm-unittest", "kubeconform", "openapi-1.35.json", "openapi-1.36.json", "openapi-1.37.json"},
			Needs: []string{"gcc", "libc6-dev"}, // -race is cgo
		},
		{
			Name: "testbed", Why: "test/testbed: control plane, hosts and images",
			Parts: []string{
				"bridge", "loopback", "host-local", "portmap", "runc", "containerd", "ctr", "containerd-shim-runc-v2",
				"crictl", "etcd", "pause", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "agnhost",
			},
			Needs: []string{"busybox-static", "iproute2", "iptables", "mount", "openssh-server", "sudo", "tinyproxy-bin", "util-linux"},
		},
		{
			Name: "conformance", Why: "make conformance: Kubernetes' own suite, after testbed",
			Parts: []string{"e2e.test", "ginkgo"}, Needs: []string{"bash-static"},
		},
		{Name: "vm", Why: "make e2e-vm: a virtual machine, after testbed", Needs: []string{"e2fsprogs", "mmdebstrap", "qemu-system-x86"}},
		{Name: "compare", Why: "the real kubelet, to compare with", Parts: []string{"kubelet"}},
		{Name: "cni-extra", Why: "CNI plugins that only some hosts use", Parts: []string{"ptp", "firewall", "bandwidth"}},
	}
}

// Select resolves names of parts and sets, or "all", to parts in catalogue order, and to the system packages needed to run
// the chosen sets. An unknown name is an error that lists the known ones.
func Select(names []string) (parts []Part, needs []string, err error) {
	chosen := map[string]bool{}
	catalogue := Catalogue()
	for _, name := range names {
		switch set, isSet := findSet(name); {
		case name == "all":
			for _, p := range catalogue {
				chosen[p.Name] = true
			}
			for _, s := range Sets() {
				needs = append(needs, s.Needs...)
			}
		case isSet:
			for _, p := range set.Parts {
				chosen[p] = true
			}
			needs = append(needs, set.Needs...)
		case slices.ContainsFunc(catalogue, func(p Part) bool { return p.Name == name }):
			chosen[name] = true
		default:
			return nil, nil, fmt.Errorf("unknown part or set %q: want all, %s", name, strings.Join(knownNames(), ", "))
		}
	}
	for _, p := range catalogue {
		if chosen[p.Name] {
			parts = append(parts, p)
		}
	}
	slices.Sort(needs)
	return parts, slices.Compact(needs), nil
}

func findSet(name string) (Set, bool) {
	for _, s := range Sets() {
		if s.Name == name {
			return s, true
		}
	}
	return Set{}, false
}

func knownNames() []string {
	var names []string
	for _, s := range Sets() {
		names = append(names, s.Name)
	}
	for _, p := range Catalogue() {
		names = append(names, p.Name)
	}
	return names
}
