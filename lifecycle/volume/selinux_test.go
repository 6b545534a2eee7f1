// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// TestVolumesOfThePodAreLabelled, each once and each part of one, and nothing that is the host's.
func TestVolumesOfThePodAreLabelled(t *testing.T) {
	m := newManager(&fakeDirs{}, nil)
	pod := testPod()
	c := pod.Spec.Containers[0].DeepCopy()
	c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "cache", MountPath: "/again"}, v1.VolumeMount{Name: "parts", MountPath: "/one", SubPath: "1"},
		v1.VolumeMount{Name: "parts", MountPath: "/two", SubPathExpr: "2"}, v1.VolumeMount{Name: "parts", MountPath: "/all"})
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "parts", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
	pod.Spec.Containers[0] = *c
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	mounts, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: c})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, mount := range mounts {
		got[mount.GetContainerPath()] = mount.GetSelinuxRelabel()
	}
	want := map[string]bool{
		"/run/x.sock": false, "/etc/app": false, "/shared": false, "/var/cache": true, "/again": false, "/one": true, "/two": true, "/all": true,
		"/dev/termination-log": true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labelled, by path (-want +got):\n%s", diff)
	}
}

// TestClaimsAreLabelledAsFarAsTheyAreThePods: what is local to the node and may be written.
func TestClaimsAreLabelledAsFarAsTheyAreThePods(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume)
		want bool
	}{
		"local":            {withGroup, true},
		"local, ephemeral": {inline, true},
		"local read-only":  {readOnly, false},
		"hostPath":         {withHostPath, false},
	} {
		pod, objects := claimed(tt.edit)
		m := newManager(&fakeDirs{}, objects)
		if err := m.Prepare(t.Context(), pod, false); err != nil {
			t.Fatal(err)
		}
		c := &pod.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "data", MountPath: "/again"})
		mounts, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: c})
		if err != nil || len(mounts) != 2 || mounts[0].GetSelinuxRelabel() != tt.want || mounts[1].GetSelinuxRelabel() {
			t.Errorf("%s: %v, %v", name, mounts, err)
		}
	}
}
