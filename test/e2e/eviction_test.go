// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/cri"
)

// sized adds an emptyDir of at most that size, mounted at /NAME.
func sized(name, size string, medium v1.StorageMedium) func(*v1.Pod) {
	return volumes(map[string]v1.VolumeSource{name: {EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium, SizeLimit: ptr.To(resource.MustParse(size))}}})
}

// storage limits what a container may take of the host's disk.
func storage(container int, limit string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[container].Resources.Limits = v1.ResourceList{v1.ResourceEphemeralStorage: resource.MustParse(limit)}
	}
}

func another(script string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, shell("other", script)) }
}

// TestPodsThatTakeTooMuchOfTheDiskAreEvicted has pods that exceed each kind of limit, and one that stays below all of them.
func TestPodsThatTakeTooMuchOfTheDiskAreEvicted(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	const hog = `dd if=/dev/zero of=%s/hog bs=1M count=8 2>/dev/null; exec sleep 1d`
	frugal := k.create(k.pod("frugal", fmt.Sprintf(hog, "/cache"), sized("cache", "64Mi", v1.StorageMediumDefault), storage(0, "64Mi")))
	memory := k.create(k.pod("memory", `dd if=/dev/zero of=/cache/hog bs=1M count=8 2>/dev/null; stat -c %s /cache/hog > /marks/memory; exec sleep 1d`,
		sized("cache", "1Mi", v1.StorageMediumMemory)))
	greedy := map[string]*v1.Pod{
		`Usage of EmptyDir volume "cache" exceeds the limit "1Mi". `:                    k.create(k.pod("volume", fmt.Sprintf(hog, "/cache"), sized("cache", "1Mi", v1.StorageMediumDefault))),
		`Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. `: k.create(k.pod("layer", fmt.Sprintf(hog, "/tmp"), storage(0, "2Mi"))),
		`Container main exceeded its local ephemeral storage limit "1Mi". `: k.create(k.pod("logs", `seq -w 1 300000; exec sleep 1d`,
			another("exec sleep 1d"), storage(0, "1Mi"), storage(1, "64Mi"))),
	}
	for message, pod := range greedy {
		pod = k.awaitPhase(pod, v1.PodFailed)
		if pod.Status.Reason != "Evicted" || pod.Status.Message != message {
			t.Errorf("pod %s: reason %q, message %q, want Evicted and %q", pod.Name, pod.Status.Reason, pod.Status.Message, message)
		}
		k.awaitEvent(pod, "Evicted", strings.TrimSpace(message))
		eventually(t, usual, "the containers of evicted pod "+pod.Name+" are removed", func() error {
			resp, err := k.runtime.ListContainers(t.Context(), &runtimeapi.ListContainersRequest{
				Filter: &runtimeapi.ContainerFilter{LabelSelector: map[string]string{cri.LabelPodUID: string(pod.UID)}}})
			if n := len(resp.GetContainers()); err == nil && n > 0 {
				err = fmt.Errorf("%d containers", n)
			}
			return err
		})
	}
	k.saw("memory", "1048576", usual)
	for _, pod := range []*v1.Pod{frugal, memory} {
		k.awaitPodReady(pod)
	}
	if n := len(k.eventsOf(frugal, "Evicted")) + len(k.eventsOf(memory, "Evicted")); n > 0 {
		t.Errorf("%d evictions of pods within their limits", n)
	}
	metrics := k.kubectl("get", "--raw", "/api/v1/nodes/"+k.name+"/proxy/metrics")
	for _, signal := range []string{"emptydirfs", "ephemeralpodfs", "ephemeralcontainerfs"} {
		if !strings.Contains(metrics, `kubelet_evictions{eviction_signal="`+signal+`.limit"}`) {
			t.Errorf("the metrics do not count evictions for %s", signal)
		}
	}
}
