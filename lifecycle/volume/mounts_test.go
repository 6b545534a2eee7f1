// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

func TestImagesAreMountedByTheRuntime(t *testing.T) {
	pod := testPod()
	pod.Annotations = map[string]string{"a": "b"}
	pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: "tools", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "example.com/tools:1"}}})
	c := &pod.Spec.Containers[0]
	c.TerminationMessagePath, c.VolumeMounts = "", []v1.VolumeMount{{Name: "tools", MountPath: "/tools", SubPath: "bin"}}
	dirs := &fakeDirs{}
	m := newManager(dirs, nil)
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	mounts, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: c, Images: map[string]string{"tools": "sha256:1"}})
	if err != nil || len(mounts) != 1 {
		t.Fatalf("%v, %v", mounts, err)
	}
	got := mounts[0]
	if got.GetHostPath() != "" || got.GetImage().GetImage() != "sha256:1" || got.GetImage().GetUserSpecifiedImage() != "example.com/tools:1" ||
		got.GetImage().GetAnnotations()["a"] != "b" || got.GetImageSubPath() != "bin" || !got.GetReadonly() || len(dirs.parts) > 0 {
		t.Errorf("got %v, parts %v", got, dirs.parts)
	}
	c.VolumeMounts[0].SubPath = "../bin"
	if _, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: c, Images: map[string]string{"tools": "sha256:1"}}); err == nil {
		t.Error("a part outside the image was accepted")
	}
	c.VolumeMounts[0].SubPath = ""
	if _, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: c}); err == nil {
		t.Error("an image that is not there was mounted")
	}
}

func TestRecursiveReadOnly(t *testing.T) {
	const (
		disabled, possible, enabled = v1.RecursiveReadOnlyDisabled, v1.RecursiveReadOnlyIfPossible, v1.RecursiveReadOnlyEnabled
		prefix                      = "failed to resolve recursive read-only mode: "
	)
	for name, tt := range map[string]struct {
		mount     v1.VolumeMount
		supported bool
		want      bool
		fails     string
	}{
		"unset":                {mount: v1.VolumeMount{ReadOnly: true}, supported: true},
		"disabled":             {mount: v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(disabled)}, supported: true},
		"possible":             {mount: v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(possible)}, supported: true, want: true},
		"not possible":         {mount: v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(possible)}},
		"enabled":              {mount: v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(enabled)}, supported: true, want: true},
		"enabled, impossible":  {mount: v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(enabled)}, fails: prefix + `volume "cache" requested recursive read-only mode, but it is not supported by the runtime`},
		"enabled, not at all":  {mount: v1.VolumeMount{RecursiveReadOnly: ptr.To(enabled)}, supported: true, fails: prefix + `volume "cache" requested recursive read-only mode, but it is not read-only`},
		"enabled, propagating": {mount: v1.VolumeMount{ReadOnly: true, RecursiveReadOnly: ptr.To(enabled), MountPropagation: ptr.To(v1.MountPropagationHostToContainer)}, supported: true, fails: prefix + `volume "cache" requested recursive read-only mode, but it is not compatible with propagation "HostToContainer"`},
	} {
		t.Run(name, func(t *testing.T) {
			m, pod := newManager(&fakeDirs{}, nil), testPod()
			if err := m.Prepare(t.Context(), pod, false); err != nil {
				t.Fatal(err)
			}
			tt.mount.Name, tt.mount.MountPath = "cache", "/c"
			mounts, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: &v1.Container{Name: "web", VolumeMounts: []v1.VolumeMount{tt.mount}}, RecursiveReadOnly: tt.supported})
			switch {
			case tt.fails != "" && (err == nil || err.Error() != tt.fails):
				t.Errorf("got %v, want %s", err, tt.fails)
			case tt.fails == "" && (err != nil || mounts[0].GetRecursiveReadOnly() != tt.want):
				t.Errorf("got %v, %v", mounts, err)
			}
		})
	}
}

func TestHugePagesHaveTheSizeThatThePodRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		medium   v1.StorageMedium
		requests []string
		want     int64
		fails    string
	}{
		"the only one":       {medium: "HugePages", requests: []string{"hugepages-2Mi", "cpu"}, want: 2 << 20},
		"the one that named": {medium: "HugePages-1Gi", requests: []string{"hugepages-2Mi", "hugepages-1Gi"}, want: 1 << 30},
		"several":            {medium: "HugePages", requests: []string{"hugepages-2Mi", "hugepages-1Gi"}, fails: "medium: HugePages can't be used if container requests multiple huge page sizes"},
		"none":               {medium: "HugePages", fails: "medium HugePages: hugePages storage requested, but there is no resource request for huge pages"},
		"another one":        {medium: "HugePages-1Gi", requests: []string{"hugepages-2Mi"}, fails: "medium HugePages-1Gi: hugePages storage requested, but there is no resource request for huge pages"},
		"unknown":            {medium: "Tape", fails: `unknown storage medium "Tape"`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod()
			pod.Spec.Volumes[0].EmptyDir.Medium = tt.medium
			pod.Spec.Volumes[0].EmptyDir.SizeLimit = ptr.To(resource.MustParse("4Mi"))
			requests := v1.ResourceList{}
			for _, r := range tt.requests {
				requests[v1.ResourceName(r)] = resource.MustParse("1Gi")
			}
			pod.Spec.Containers[0].Resources.Requests = requests
			dirs := &fakeDirs{}
			err := newManager(dirs, nil).Prepare(t.Context(), pod, false)
			var cause *SetUpError
			switch want := (host.Volume{Name: "cache", EmptyDir: true, HugePageBytes: tt.want, SizeBytes: 4 << 20}); {
			case tt.fails != "" && (!errors.As(err, &cause) || cause.Err.Error() != tt.fails):
				t.Errorf("got %v, want %s", err, tt.fails)
			case tt.fails == "" && (err != nil || dirs.volumes[0] != want):
				t.Errorf("got %+v, %v; want %+v", dirs.volumes, err, want)
			}
		})
	}
}
