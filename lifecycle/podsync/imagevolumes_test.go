// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// withImageVolume makes every container mount an image.
func withImageVolume(pod *v1.Pod) {
	pod.Spec.Volumes = []v1.Volume{{Name: "tools", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "tools:1", PullPolicy: v1.PullAlways}}}}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].VolumeMounts = []v1.VolumeMount{{Name: "tools", MountPath: "/tools"}}
	}
}

func TestImagesThatAreMountedArePulledOnceForAllContainers(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web,log")
		withImageVolume(b.pod)
		b.mustSync(t)
		if ref := b.volumes.images["tools"]; ref == "" {
			t.Errorf("images %v are mounted", b.volumes.images)
		}
		if n := len(rt.Calls("PullImage")); n != 3 { // one for each container, and one to mount
			t.Errorf("%d pulls, want 3", n)
		}
	})
}

func TestContainerWaitsForTheImageThatItMounts(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		withImageVolume(b.pod)
		b.images.missing = "tools:1"
		b.sync(t)
		b.wantWaiting(t, "web", "ErrImagePull", "tools:1 is missing")
		b.wantEvents(t, "Failed spec.containers{web}: Error: ErrImagePull")
		b.images.missing = ""
		b.mustSync(t)
	})
}

func TestRecursiveReadOnlyIsWhatTheHandlerOfThePodCanDo(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		p := &pass{Syncer: b.syncer, pod: b.pod}
		c := &b.pod.Spec.Containers[0]
		c.VolumeMounts = []v1.VolumeMount{{Name: "v", ReadOnly: true, RecursiveReadOnly: ptr.To(v1.RecursiveReadOnlyIfPossible)}}
		if _, err := p.recursiveReadOnly(t.Context(), c); !errdefs.IsUnavailable(err) {
			t.Errorf("on a node that is not known: %v", err)
		}
		for want, handler := range map[bool]string{true: "", false: "other"} {
			b.syncer.opts.Node = func() *v1.Node {
				return &v1.Node{Status: v1.NodeStatus{RuntimeHandlers: []v1.NodeRuntimeHandler{
					{Name: handler, Features: &v1.NodeRuntimeHandlerFeatures{RecursiveReadOnlyMounts: ptr.To(true)}}}}}
			}
			if got, err := p.recursiveReadOnly(t.Context(), c); err != nil || got != want {
				t.Errorf("handler %q: %v, %v", handler, got, err)
			}
		}
	})
}
