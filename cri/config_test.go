// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func somePod(spec v1.PodSpec) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "ns"}, Spec: spec}
}

func TestContainerConfigErrors(t *testing.T) {
	nonRoot := &v1.SecurityContext{RunAsNonRoot: new(true)}
	seccomp := func(p v1.SeccompProfile) v1.Container {
		return v1.Container{Name: "c", SecurityContext: &v1.SecurityContext{SeccompProfile: &p}}
	}
	good := v1.Container{Name: "c"}
	for _, tt := range []struct {
		desc      string
		pod       *v1.Pod
		container v1.Container
		change    func(*ContainerInput)
		want      string
	}{
		{desc: "a pod without identity", pod: &v1.Pod{}, container: good, want: "metadata.uid of the pod is empty"},
		{desc: "a container without a name", container: v1.Container{}, want: "name of the container is empty"},
		{desc: "no image reference", container: good, change: func(in *ContainerInput) { in.ImageRef = "" }, want: "image reference of container \"c\" is empty"},
		{desc: "a negative restart count", container: good, change: func(in *ContainerInput) { in.RestartCount = -1 }, want: "restart count of container \"c\" is negative"},
		{
			desc: "a mount without a source", container: good, want: `lacks a path: "" on the host, "/x" inside`,
			change: func(in *ContainerInput) { in.Mounts = []*runtimeapi.Mount{{ContainerPath: "/x"}} },
		},
		{desc: "a user namespace", pod: somePod(v1.PodSpec{HostUsers: new(false)}), container: good, want: "can't set `spec.hostUsers: false`"},
		{
			desc: "a groups policy that is not known", container: good, want: "unsupported supplementalGroupsPolicy: Later",
			pod: somePod(v1.PodSpec{SecurityContext: &v1.PodSecurityContext{SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicy("Later"))}}),
		},
		{
			desc:      "root although not allowed",
			container: v1.Container{Name: "c", SecurityContext: &v1.SecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(0))}},
			want:      `container's runAsUser breaks non-root policy (pod: "p_ns(u)", container: c)`,
		},
		{
			desc: "an image that runs as root although not allowed", container: v1.Container{Name: "c", SecurityContext: nonRoot},
			change: func(in *ContainerInput) { in.Image = &runtimeapi.Image{} },
			want:   "container has runAsNonRoot and image will run as root",
		},
		{
			desc: "an image whose user is a name although root is not allowed", container: v1.Container{Name: "c", SecurityContext: nonRoot},
			change: func(in *ContainerInput) { in.Image = &runtimeapi.Image{Username: "app"} },
			want:   "image has non-numeric user (app), cannot verify user is non-root",
		},
		{
			desc: "an image that is not known although root is not allowed", container: v1.Container{Name: "c", SecurityContext: nonRoot},
			want: "the user of its image is not known, set runAsUser",
		},
		{desc: "a seccomp profile of no type", container: seccomp(v1.SeccompProfile{}), want: "use RuntimeDefault, Localhost or Unconfined"},
		{
			desc: "a seccomp profile out of its directory", want: "must be a relative path without '..'",
			container: seccomp(v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: new("../x")}),
		},
		{
			desc: "a seccomp profile without a directory", want: "no directory of profiles is set up on the host",
			container: seccomp(v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: new("x")}),
			change:    func(in *ContainerInput) { in.SeccompDir = "" },
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			in := ContainerInput{Pod: tt.pod, Container: &tt.container, ImageRef: "sha256:1", SeccompDir: "/seccomp"}
			if in.Pod == nil {
				in.Pod = somePod(v1.PodSpec{})
			}
			if tt.change != nil {
				tt.change(&in)
			}
			if _, err := ContainerConfig(in); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestSandboxConfigErrors(t *testing.T) {
	for want, pod := range map[string]*v1.Pod{
		"metadata.name of the pod is empty": {},
		"can't set `spec.hostUsers: false`": somePod(v1.PodSpec{HostUsers: new(false)}),
		"unsupported supplementalGroupsPolicy": somePod(v1.PodSpec{
			SecurityContext: &v1.PodSecurityContext{SupplementalGroupsPolicy: new(v1.SupplementalGroupsPolicy("Later"))},
		}),
	} {
		if _, err := SandboxConfig(SandboxInput{Pod: pod}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestSandboxTakesOnlyShortAnnotations(t *testing.T) {
	pod := somePod(v1.PodSpec{})
	pod.Annotations = map[string]string{
		v1.LastAppliedConfigAnnotation: "{}",
		"short":                        "s",
		"just-fits":                    strings.Repeat("x", maxAnnotationBytes),
		"too-long":                     strings.Repeat("x", maxAnnotationBytes+1),
	}
	want := map[string]string{"short": "s", "just-fits": pod.Annotations["just-fits"]}
	if diff := cmp.Diff(want, podAnnotations(pod)); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	for _, k := range []string{"a", "b", "c", "d", "e"} {
		pod.Annotations[k] = strings.Repeat(k, maxAnnotationBytes-100)
	}
	size := 0
	got := podAnnotations(pod)
	for k, v := range got {
		size += len(k) + len(v)
	}
	if size > maxAnnotationsBytes || got["short"] == "" || got["d"] == "" || got["e"] != "" {
		t.Errorf("%d bytes of annotations, want the shortest that fit in %d", size, maxAnnotationsBytes)
	}
}

func TestOOMScoreAdj(t *testing.T) {
	requests := func(q string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse(q)}}
	}
	const node = 16 << 30
	for _, tt := range []struct {
		desc    string
		request string
		node    uint64
		want    int64
	}{
		{desc: "half of the machine", request: "8Gi", node: node, want: 500},
		{desc: "rounded like the kubelet", request: "1Mi", node: 3 << 20, want: 667},
		{desc: "nothing is less than best effort", request: "1", node: node, want: 999},
		{desc: "everything is more than guaranteed", request: "16Gi", node: node, want: 3},
		{desc: "more than there is", request: "8Ei", node: node, want: 3},
		{desc: "a machine of unknown size", request: "8Gi", want: 999},
		{desc: "a machine beyond all sizes", request: "1Gi", node: 1 << 63, want: 999},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			pod := somePod(v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: requests(tt.request)}}})
			pod.Status.QOSClass = v1.PodQOSBurstable
			if got := oomScoreAdj(pod, &pod.Spec.Containers[0], tt.node); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}

// TestOOMScoreAdjOfAPodWithItsOwnRequest: 4 GiB of the pod's 8 GiB are nobody's, and shared by the two containers and two init containers.
func TestOOMScoreAdjOfAPodWithItsOwnRequest(t *testing.T) {
	requests := func(q string) v1.ResourceList { return v1.ResourceList{v1.ResourceMemory: resource.MustParse(q)} }
	always := v1.ContainerRestartPolicyAlways
	pod := somePod(v1.PodSpec{
		Resources:      &v1.ResourceRequirements{Requests: requests("8Gi")},
		InitContainers: []v1.Container{{Name: "first"}, {Name: "sidecar", RestartPolicy: &always}},
		Containers:     []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: requests("4Gi")}}, {Name: "d"}},
	})
	pod.Status.QOSClass = v1.PodQOSBurstable
	for i, want := range []int64{688, 938} {
		if got := oomScoreAdj(pod, &pod.Spec.Containers[i], 16<<30); got != want {
			t.Errorf("%s: got %d, want %d", pod.Spec.Containers[i].Name, got, want)
		}
	}
}

func TestDottedSysctl(t *testing.T) {
	for name, want := range map[string]string{
		"net.ipv4.ip_forward":            "net.ipv4.ip_forward",
		"net/ipv4/ip_forward":            "net.ipv4.ip_forward",
		"net/ipv4/conf/eno2.100/rp":      "net.ipv4.conf.eno2/100.rp",
		"net.ipv4.conf.eno2/100.rp":      "net.ipv4.conf.eno2/100.rp",
		"kernel":                         "kernel",
		"":                               "",
		"net.ipv4.neigh.enp3s0/200.base": "net.ipv4.neigh.enp3s0/200.base",
	} {
		if got := dottedSysctl(name); got != want {
			t.Errorf("%q became %q, want %q", name, got, want)
		}
	}
}

func TestAnnotatedAppArmor(t *testing.T) {
	for value, want := range map[string]*v1.AppArmorProfile{
		"":                nil,
		"nonsense":        nil,
		"runtime/default": {Type: v1.AppArmorProfileTypeRuntimeDefault},
		"unconfined":      {Type: v1.AppArmorProfileTypeUnconfined},
		"localhost/mine":  {Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("mine")},
	} {
		if diff := cmp.Diff(want, annotatedAppArmor(value)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
}

func TestContainerOfAHookIsToldFromTheOneItServes(t *testing.T) {
	in := ContainerInput{Pod: somePod(v1.PodSpec{}), Container: &v1.Container{Name: "c"}, ImageRef: "sha256:1", Command: []string{"bye"}}
	ordinary, err := ContainerConfig(in)
	if err != nil {
		t.Fatal(err)
	}
	in.ExitHook = true
	hook, err := ContainerConfig(in)
	if err != nil {
		t.Fatal(err)
	}
	if hook.GetMetadata().GetName() != "c.exit-hook" || hook.GetLogPath() != "c/exit-hook.log" || ordinary.GetLogPath() != "c/0.log" {
		t.Errorf("name %q, logs %q and %q", hook.GetMetadata().GetName(), hook.GetLogPath(), ordinary.GetLogPath())
	}
	facts := func(cfg *runtimeapi.ContainerConfig) ContainerStatus {
		return ContainerFacts(&runtimeapi.ContainerStatus{Metadata: cfg.GetMetadata(), Labels: cfg.GetLabels(), Annotations: cfg.GetAnnotations()})
	}
	if facts(hook).HookOf != "c" || facts(ordinary).HookOf != "" {
		t.Errorf("hook of %q, ordinary one of %q", facts(hook).HookOf, facts(ordinary).HookOf)
	}
}

// TestGroupNeverStandsAlone: a runtime refuses a group without a user.
func TestGroupNeverStandsAlone(t *testing.T) {
	pod := somePod(v1.PodSpec{SecurityContext: &v1.PodSecurityContext{RunAsGroup: new(int64(3000))}})
	sandbox, err := sandboxSecurity(pod, nil)
	if err != nil {
		t.Fatal(err)
	}
	if sandbox.GetRunAsGroup() != nil {
		t.Errorf("the sandbox has the group %v and no user", sandbox.GetRunAsGroup())
	}
	for _, tc := range []struct {
		image    *runtimeapi.Image
		uid      int64
		username string
	}{
		{&runtimeapi.Image{}, 0, ""},
		{&runtimeapi.Image{Uid: &runtimeapi.Int64Value{Value: 7}}, 7, ""},
		{&runtimeapi.Image{Username: "web"}, 0, "web"},
	} {
		got, err := containerSecurity(ContainerInput{Pod: pod, Container: &v1.Container{Name: "c"}, Image: tc.image})
		if err != nil {
			t.Fatal(err)
		}
		if got.GetRunAsGroup().GetValue() != 3000 || got.GetRunAsUser().GetValue() != tc.uid || got.GetRunAsUsername() != tc.username ||
			(got.GetRunAsUser() == nil) == (tc.username == "") {
			t.Errorf("image %v: user %v %q, group %v", tc.image, got.GetRunAsUser(), got.GetRunAsUsername(), got.GetRunAsGroup())
		}
	}
}

func TestCountersOfEachProcessorAreMaskedUnlessNothingIs(t *testing.T) {
	c := &v1.Container{Name: "main"}
	in := ContainerInput{Pod: &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{*c}}}, Container: c, NodeCPUs: 2}
	sc, err := containerSecurity(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/proc/kcore", "/sys/devices/system/cpu/cpu0/thermal_throttle", "/sys/devices/system/cpu/cpu1/thermal_throttle"} {
		if !slices.Contains(sc.GetMaskedPaths(), path) {
			t.Errorf("%s is not masked", path)
		}
	}
	if slices.Contains(maskedPaths, "/sys/devices/system/cpu/cpu0/thermal_throttle") {
		t.Error("the list of all machines was changed")
	}
	c.SecurityContext = &v1.SecurityContext{ProcMount: new(v1.UnmaskedProcMount)}
	if sc, err = containerSecurity(in); err != nil || len(sc.GetMaskedPaths()) > 0 {
		t.Errorf("masked of an unmasked container: %q, %v", sc.GetMaskedPaths(), err)
	}
}
