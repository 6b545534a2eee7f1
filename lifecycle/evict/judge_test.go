// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package evict

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// quantity is a limit; "" is none.
func quantity(s string) *resource.Quantity {
	if s == "" {
		return nil
	}
	q := resource.MustParse(s)
	return &q
}

func container(name, limit string) v1.Container {
	c := v1.Container{Name: name}
	if limit != "" {
		c.Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: *quantity(limit)}
	}
	return c
}

// podWith has an emptyDir and two containers with those limits.
func podWith(dir, first, second string) *v1.Pod {
	return &v1.Pod{Spec: v1.PodSpec{
		Volumes:    []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: quantity(dir)}}}},
		Containers: []v1.Container{container("one", first), container("two", second)},
	}}
}

const mebi = 1 << 20

func TestJudge(t *testing.T) {
	usage := &host.PodUsage{
		Volumes: map[string]int64{"cache": 10 * mebi},
		Containers: map[string]host.ContainerUsage{
			"one": {Logs: 1 * mebi, Layer: 2 * mebi}, "two": {Logs: 3 * mebi, Layer: 4 * mebi},
		},
		Other: 1 * mebi,
	} // 21 MiB
	elsewhere := &host.PodUsage{Containers: map[string]host.ContainerUsage{"one": {Logs: 1 * mebi, Layer: 9 * mebi, Elsewhere: true}}}
	memory := podWith("1Mi", "", "")
	memory.Spec.Volumes[0].EmptyDir.Medium = v1.StorageMediumMemory
	sidecar := podWith("", "", "")
	sidecar.Spec.InitContainers = []v1.Container{container("two", "6Mi")}
	initial := sidecar.DeepCopy()
	always := v1.ContainerRestartPolicyAlways
	sidecar.Spec.InitContainers[0].RestartPolicy = &always
	for name, tt := range map[string]struct {
		pod   *v1.Pod
		usage *host.PodUsage
		want  Verdict
	}{
		"no limits":                    {podWith("", "", ""), usage, Verdict{}},
		"everything at its limit":      {podWith("10Mi", "14Mi", "7Mi"), usage, Verdict{}},
		"an emptyDir above":            {podWith("9Mi", "1", "1"), usage, Verdict{SignalEmptyDir, "Usage of EmptyDir volume \"cache\" exceeds the limit \"9Mi\". "}},
		"a limit of zero is none":      {podWith("0", "", ""), usage, Verdict{}},
		"in memory":                    {memory, usage, Verdict{}},
		"the pod above":                {podWith("10Mi", "10Mi", "10Mi"), usage, Verdict{SignalPod, "Pod ephemeral local storage usage exceeds the total limit of containers 20Mi. "}},
		"a container above":            {podWith("", "1Gi", "6Mi"), usage, Verdict{SignalContainer, "Container two exceeded its local ephemeral storage limit \"6Mi\". "}},
		"a layer elsewhere":            {podWith("", "9Mi", "1Gi"), elsewhere, Verdict{}},
		"a layer elsewhere in the sum": {podWith("", "9Mi", ""), elsewhere, Verdict{SignalPod, "Pod ephemeral local storage usage exceeds the total limit of containers 9Mi. "}},
		"a sidecar above in the sum":   {sidecar, usage, Verdict{SignalPod, "Pod ephemeral local storage usage exceeds the total limit of containers 6Mi. "}},
		"an init container":            {initial, &host.PodUsage{Containers: map[string]host.ContainerUsage{"two": {Logs: 5 * mebi}}}, Verdict{}},
		"nothing measured":             {podWith("1", "1", "1"), &host.PodUsage{}, Verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, over := Judge(tt.pod, tt.usage)
			if got != tt.want || over != (tt.want != Verdict{}) {
				t.Errorf("got %+v, %v; want %+v", got, over, tt.want)
			}
		})
	}
}

func TestOnlyPodsWithLimitsThatMayBeEvictedAreMeasured(t *testing.T) {
	critical, high := int32(2_000_000_000), int32(1_999_999_999)
	with := func(edit func(*v1.Pod)) *v1.Pod {
		p := podWith("1Mi", "1Mi", "")
		edit(p)
		return p
	}
	for name, tt := range map[string]struct {
		pod  *v1.Pod
		want Limits
	}{
		"none":            {podWith("", "", ""), Limits{}},
		"an emptyDir":     {podWith("1Mi", "", ""), Limits{EmptyDirs: true}},
		"a container":     {podWith("", "", "1Mi"), Limits{Storage: true}},
		"a high priority": {with(func(p *v1.Pod) { p.Spec.Priority = &high }), Limits{EmptyDirs: true, Storage: true}},
		"a critical pod":  {with(func(p *v1.Pod) { p.Spec.Priority = &critical }), Limits{}},
		"a static pod":    {with(func(p *v1.Pod) { p.Annotations = map[string]string{podrules.AnnotationSource: "file"} }), Limits{}},
		"only in memory":  {with(func(p *v1.Pod) { p.Spec.Volumes[0].EmptyDir.Medium = "Memory"; p.Spec.Containers = nil }), Limits{}},
		"an init container": {with(func(p *v1.Pod) {
			p.Spec.InitContainers, p.Spec.Containers, p.Spec.Volumes = p.Spec.Containers, nil, nil
		}), Limits{Storage: true}},
	} {
		if got := LimitsOf(tt.pod); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
