// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/tombolo-dev/tombolo/lifecycle/admission"
	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/provider"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
)

// The kubelet's defaults for the flags of the same names.
const (
	defaultKubeletAddress = "0.0.0.0"
	defaultKubeletPort    = 10250
	defaultMaxPods        = 110
)

// The kubelet's names for what containers may use of swap.
const (
	noSwap      = "NoSwap"
	limitedSwap = "LimitedSwap"
)

// defaultTaint keeps pods away that were not meant for a node at the end of a link.
const defaultTaint = "virtual-kubelet.io/provider=tombolo:NoSchedule"

// nodeOptions are the flags of "tombolo node".
type nodeOptions struct {
	name       string
	kubeconfig string
	identity   identityOptions

	host       string
	hostFiles  link.Files
	serverName string
	hostListen string
	join       joinOptions
	ssh        sshOptions
	rootDir    string
	podLogsDir string

	nodeIP       string
	address      string
	port         int
	certFile     string
	keyFile      string
	clientCAFile string

	labels  map[string]string
	taints  []string
	maxPods int
	// maxParallelStarts is of new pods.
	maxParallelStarts int
	// maxParallelPulls is of images.
	maxParallelPulls int
	// seccompDir has profiles.
	seccompDir    string
	cgroupsPerQOS bool
	maxPIDs       int64
	swapBehavior  string

	static staticOptions

	clusterDNS    []string
	clusterDomain string
	clusterID     string

	unsafeSysctls []string

	log logOptions
}

func (o *nodeOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.name, "name", "", "name of the node")
	fs.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server as the node; without it, the node asks for an identity of its own")
	o.identity.addFlags(fs)

	fs.StringVar(&o.host, "host", "", "where the host is: tls://host:port of a tombolo host, ssh://user@host[:port] of a machine with an SSH server and containerd, reverse://name of a tombolo host that connects to --listen, or unix:///path/of/containerd.sock for this machine")
	fs.StringVar(&o.hostFiles.CAFile, "host-ca-file", "", "authority that the host's certificate must come from (tls://, reverse://)")
	fs.StringVar(&o.hostFiles.CertFile, "host-cert-file", "", "certificate of this node for the host (tombolo pki node) (tls://, reverse://)")
	fs.StringVar(&o.hostFiles.KeyFile, "host-key-file", "", "key of that certificate (tls://, reverse://)")
	o.hostFiles.Names = link.FileNames{CA: "--host-ca-file", Cert: "--host-cert-file", Key: "--host-key-file"}
	fs.StringVar(&o.serverName, "host-server-name", "", "name in the host's certificate, if it is not the one in --host (tls://)")
	fs.StringVar(&o.hostListen, "listen", defaultHostListen, "address and port to which the host connects (reverse://)")
	o.join.addFlags(fs)
	fs.StringVar(&o.rootDir, "root-dir", defaultRootDir, "directory for everything that is kept on the host (unix://, ssh://)")
	fs.StringVar(&o.podLogsDir, "pod-logs-dir", defaultPodLogsDir, "directory of the pods' log directories on the host (unix://, ssh://)")
	o.ssh.addFlags(fs)

	fs.StringVar(&o.nodeIP, "node-ip", "", "address of this process at which the API server reaches the kubelet API; by default the one from which the API server is reached")
	fs.StringVar(&o.address, "address", defaultKubeletAddress, "address to serve the kubelet API on")
	fs.IntVar(&o.port, "port", defaultKubeletPort, "port to serve the kubelet API on")
	fs.StringVar(&o.certFile, "tls-cert-file", "", "serving certificate of the kubelet API; without it one is made that nobody can verify")
	fs.StringVar(&o.keyFile, "tls-private-key-file", "", "key of that certificate")
	fs.StringVar(&o.clientCAFile, "client-ca-file", "", "authority of the client certificates that the kubelet API accepts; without it only tokens are accepted")

	fs.StringToStringVar(&o.labels, "node-labels", nil, "labels of the node, key=value separated by commas")
	fs.StringSliceVar(&o.taints, "register-with-taints", []string{defaultTaint}, `taints the node is registered with, key=value:effect separated by commas; "" for none`)
	fs.IntVar(&o.maxPods, "max-pods", defaultMaxPods, "number of pods the node takes")
	fs.IntVar(&o.maxParallelStarts, "max-parallel-starts", provider.DefaultParallelStarts, "number of new pods that are started at the same time; more at once make most pods of a burst ready later")
	fs.IntVar(&o.maxParallelPulls, "max-parallel-pulls", provider.DefaultParallelPulls, "number of images that the host pulls at the same time; others wait; 1 is a kubelet's default")
	fs.StringVar(&o.seccompDir, "seccomp-profile-dir", "", "directory, on the machine this runs on, of seccomp profiles that are brought to the host for the pods that name them (localhostProfile); others are below seccomp in the host's root directory")
	fs.BoolVar(&o.cgroupsPerQOS, "cgroups-per-qos", true, "make a control group for each pod and class of pods on the host; without, the container runtime makes those of containers only, and nothing limits a pod as a whole")

	fs.Int64Var(&o.maxPIDs, "pod-max-pids", -1, "number of processes and threads a pod may have; -1 is no limit")
	fs.StringVar(&o.swapBehavior, "memory-swap-behavior", noSwap, "what containers may use of the host's swap: NoSwap, or LimitedSwap for a share that goes with their memory requests; burstable pods only, on hosts with cgroup v2")

	o.static.addFlags(fs)
	fs.StringSliceVar(&o.clusterDNS, "cluster-dns", nil, "addresses of the cluster's DNS service, separated by commas")
	fs.StringVar(&o.clusterDomain, "cluster-domain", "", "domain of the cluster's DNS names, such as cluster.local")
	fs.StringVar(&o.clusterID, "cluster-id", "", "what tells this cluster's pods from those of other clusters on the same host; by default the UID of the Service default/kubernetes")
	fs.StringSliceVar(&o.unsafeSysctls, "allowed-unsafe-sysctls", nil, "sysctls, or patterns that end with *, that pods may set besides the safe ones, separated by commas")
	o.log.addFlags(fs)
}

// nodeSettings are what the flags amount to where they are not plain values.
type nodeSettings struct {
	target link.Target
	ssh    hostconn.SSH
	nodeIP netip.Addr
	taints []v1.Taint
	static provider.StaticPods
}

// validate reports everything that is wrong at once, each with its flag and a remedy.
func (o *nodeOptions) validate() (*nodeSettings, error) {
	var s nodeSettings
	var problems []error
	add := func(found ...error) { problems = append(problems, found...) }

	add(o.checkName()...)
	var found []error
	s.target, s.ssh, found = o.checkHost()
	add(found...)
	s.nodeIP, found = o.checkServing()
	add(found...)
	add(checkLabels(o.labels)...)
	s.taints, found = parseTaints(strings.Join(o.taints, ","))
	add(found...)
	s.static, found = o.static.validate()
	add(found...)
	add(o.identity.check(o)...)
	add(o.checkCluster()...)
	add(o.checkPods()...)
	add(o.log.check()...)
	for _, pattern := range o.unsafeSysctls {
		if err := admission.ValidateSysctlPattern(pattern); err != nil {
			add(fmt.Errorf("--allowed-unsafe-sysctls: %w", err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return nil, usageError{err}
	}
	return &s, nil
}

func (o *nodeOptions) checkName() []error {
	if o.name == "" {
		return []error{errors.New("--name is empty: give the node a name")}
	}
	if why := validation.IsDNS1123Subdomain(o.name); len(why) > 0 {
		return []error{fmt.Errorf("--name %q: %s", o.name, strings.Join(why, "; "))}
	}
	return nil
}

func (o *nodeOptions) checkHost() (target link.Target, ssh hostconn.SSH, problems []error) {
	if o.host == "" {
		return target, ssh, []error{errors.New("--host is empty: give tls://host:port of a tombolo host, ssh://user@host of a machine with an SSH server, reverse://name of a tombolo host that connects to this process, or unix:///run/containerd/containerd.sock for this machine")}
	}
	target, err := link.ParseTarget(o.host)
	if err != nil {
		return target, ssh, []error{fmt.Errorf("--host: %w", err)}
	}
	problems = o.unusedHostFlags(target.Scheme)
	if target.Scheme != link.SchemeSSH {
		problems = append(problems, o.ssh.unused(o.host)...)
	}
	if target.Scheme == link.SchemeTLS || target.Scheme == link.SchemeReverse {
		return target, ssh, append(problems, o.checkLinkFiles()...)
	}
	for _, path := range []struct{ flag, value string }{{"root-dir", o.rootDir}, {"pod-logs-dir", o.podLogsDir}} {
		if !filepath.IsAbs(path.value) {
			problems = append(problems, fmt.Errorf("--%s %q: give an absolute path", path.flag, path.value))
		}
	}
	if target.Scheme == link.SchemeSSH {
		var found []error
		ssh, found = o.ssh.validate(o.log.verbosity)
		problems = append(problems, found...)
	}
	return target, ssh, problems
}

// unusedHostFlags finds flags that are given although they are for other links.
func (o *nodeOptions) unusedHostFlags(scheme string) (problems []error) {
	const withCertificates = "tls:// or reverse://"
	for _, flag := range []struct {
		name, links string
		given       bool
	}{
		{"host-ca-file", withCertificates, o.hostFiles.CAFile != ""}, {"host-cert-file", withCertificates, o.hostFiles.CertFile != ""},
		{"host-key-file", withCertificates, o.hostFiles.KeyFile != ""}, {"host-server-name", "tls://", o.serverName != ""},
		{"listen", "reverse://", o.hostListen != defaultHostListen}, {"join-dir", "reverse://", o.join.dir != ""},
		{"join-validity", "reverse://", o.join.validity != defaultJoinValidity},
	} {
		if flag.given && !strings.Contains(flag.links, scheme+"://") {
			problems = append(problems, fmt.Errorf("--%s is for a host behind %s, and --host is %s: leave it out", flag.name, flag.links, o.host))
		}
	}
	return problems
}

// checkLinkFiles finds what is wrong with the flags for a host that is known by its certificate.
func (o *nodeOptions) checkLinkFiles() (problems []error) {
	if !isListenAddress(o.hostListen) {
		problems = append(problems, fmt.Errorf("--listen %q: give address:port or :port, with a port up to 65535", o.hostListen))
	}
	if o.join.dir != "" {
		return append(problems, o.join.check(o.hostFiles)...)
	}
	for _, file := range []struct{ flag, value, remedy string }{
		{"host-ca-file", o.hostFiles.CAFile, "it is ca.crt of: tombolo pki init"},
		{"host-cert-file", o.hostFiles.CertFile, "make one with: tombolo pki node"},
		{"host-key-file", o.hostFiles.KeyFile, "it is made together with the certificate"},
	} {
		if file.value == "" {
			problems = append(problems, fmt.Errorf("--%s is empty, and a host behind tls:// or reverse:// needs it: %s", file.flag, file.remedy))
		}
	}
	return problems
}

func (o *nodeOptions) checkServing() (netip.Addr, []error) {
	var problems []error
	var nodeIP netip.Addr
	if o.nodeIP != "" {
		addr, err := netip.ParseAddr(o.nodeIP)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("--node-ip %q: give one IP address", o.nodeIP))
		case addr.IsUnspecified() || addr.IsMulticast():
			problems = append(problems, fmt.Errorf("--node-ip %q: give an address that the API server can connect to, or leave it out", o.nodeIP))
		default:
			nodeIP = addr.Unmap()
		}
	}
	if _, err := netip.ParseAddr(o.address); err != nil {
		problems = append(problems, fmt.Errorf("--address %q: give one IP address, such as :: or 0.0.0.0", o.address))
	}
	if o.port < 1 || o.port > 65535 {
		problems = append(problems, fmt.Errorf("--port %d: give a port from 1 to 65535", o.port))
	}
	if (o.certFile == "") != (o.keyFile == "") {
		problems = append(problems, errors.New("--tls-cert-file and --tls-private-key-file belong together: give both or neither"))
	}
	return nodeIP, problems
}

func (o *nodeOptions) checkPods() []error {
	var problems []error
	if o.maxPods < 1 {
		problems = append(problems, fmt.Errorf("--max-pods %d: give at least 1", o.maxPods))
	}
	if o.maxParallelStarts < 1 {
		problems = append(problems, fmt.Errorf("--max-parallel-starts %d: give at least 1", o.maxParallelStarts))
	}
	if o.maxParallelPulls < 1 {
		problems = append(problems, fmt.Errorf("--max-parallel-pulls %d: give at least 1", o.maxParallelPulls))
	}
	if o.seccompDir != "" {
		if info, err := os.Stat(o.seccompDir); err != nil || !info.IsDir() {
			problems = append(problems, fmt.Errorf("--seccomp-profile-dir %q: give a directory that is there", o.seccompDir))
		}
	}
	if o.maxPIDs < -1 || o.maxPIDs == 0 {
		problems = append(problems, fmt.Errorf("--pod-max-pids %d: give at least 1, or -1 for no limit", o.maxPIDs))
	}
	if o.maxPIDs > 0 && !o.cgroupsPerQOS {
		problems = append(problems, errors.New("--pod-max-pids limits the control group of a pod, and --cgroups-per-qos=false makes none: leave one of them out"))
	}
	if o.swapBehavior != noSwap && o.swapBehavior != limitedSwap {
		problems = append(problems, fmt.Errorf("--memory-swap-behavior %q: give %s or %s", o.swapBehavior, noSwap, limitedSwap))
	}
	return problems
}

func (o *nodeOptions) checkCluster() []error {
	var problems []error
	for _, server := range o.clusterDNS {
		if _, err := netip.ParseAddr(server); err != nil {
			problems = append(problems, fmt.Errorf("--cluster-dns %q: give IP addresses", server))
		}
	}
	if o.clusterDomain != "" {
		if why := validation.IsDNS1123Subdomain(strings.TrimSuffix(o.clusterDomain, ".")); len(why) > 0 {
			problems = append(problems, fmt.Errorf("--cluster-domain %q: %s", o.clusterDomain, strings.Join(why, "; ")))
		}
	}
	if why := validation.IsValidLabelValue(o.clusterID); len(why) > 0 {
		problems = append(problems, fmt.Errorf("--cluster-id %q: %s", o.clusterID, strings.Join(why, "; ")))
	}
	return problems
}

// listen is the address:port of the kubelet API.
func (o *nodeOptions) listen() string { return net.JoinHostPort(o.address, strconv.Itoa(o.port)) }

// checkLabels finds labels that the API server would refuse, from a node in particular.
func checkLabels(labels map[string]string) []error {
	var problems []error
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if why := validation.IsQualifiedName(key); len(why) > 0 {
			problems = append(problems, fmt.Errorf("--node-labels %q: %s", key, strings.Join(why, "; ")))
		}
		if why := validation.IsValidLabelValue(labels[key]); len(why) > 0 {
			problems = append(problems, fmt.Errorf("--node-labels %s=%q: %s", key, labels[key], strings.Join(why, "; ")))
		}
		if reservedLabel(key) && !kubeletapis.IsKubeletLabel(key) {
			problems = append(problems, fmt.Errorf("--node-labels %q: a node may not set this label of kubernetes.io or k8s.io itself; use one below %s, or set it with kubectl",
				key, strings.Join(kubeletapis.KubeletLabelNamespaces(), " or ")))
		}
	}
	return problems
}

// reservedLabel says whether the label's key is in one of the name spaces that Kubernetes keeps for itself.
func reservedLabel(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io"} {
		if prefix == reserved || strings.HasSuffix(prefix, "."+reserved) {
			return true
		}
	}
	return false
}

// parseTaints reads the kubelet's form of taints: key=value:effect or key:effect, separated by commas.
func parseTaints(text string) (taints []v1.Taint, problems []error) {
	type identity struct {
		key    string
		effect v1.TaintEffect
	}
	seen := map[identity]bool{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		taint, err := parseTaint(part)
		id := identity{taint.Key, taint.Effect}
		if err == nil && seen[id] {
			err = fmt.Errorf("--register-with-taints %q: there is one of this key and effect already", part)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		seen[id] = true
		taints = append(taints, taint)
	}
	return taints, problems
}

func parseTaint(text string) (v1.Taint, error) {
	wrong := func(why string) (v1.Taint, error) {
		return v1.Taint{}, fmt.Errorf("--register-with-taints %q: %s", text, why)
	}
	left, effect, ok := strings.Cut(text, ":")
	if !ok {
		return wrong("give key=value:effect or key:effect")
	}
	key, value, _ := strings.Cut(left, "=")
	taint := v1.Taint{Key: key, Value: value, Effect: v1.TaintEffect(effect)}
	if !slices.Contains([]v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}, taint.Effect) {
		return wrong("the effect must be NoSchedule, PreferNoSchedule or NoExecute")
	}
	if why := validation.IsQualifiedName(key); len(why) > 0 {
		return wrong(strings.Join(why, "; "))
	}
	if why := validation.IsValidLabelValue(value); len(why) > 0 {
		return wrong(strings.Join(why, "; "))
	}
	return taint, nil
}
