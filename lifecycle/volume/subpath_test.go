// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

func TestSubPathsAreExpandedAndChecked(t *testing.T) {
	env := []*runtimeapi.KeyValue{{Key: "POD", Value: []byte("web-0")}, {Key: "EMPTY"}, {Key: "UP", Value: []byte("../x")}}
	for _, tc := range []struct{ path, expr, want, err string }{
		{},
		{path: "a/b", want: "a/b"},
		{path: "$(POD)", want: "$(POD)"},
		{path: "a..b", want: "a..b"},
		{expr: "logs/$(POD)", want: "logs/web-0"},
		{expr: "$$(POD)", want: "$(POD)"},
		{expr: "$(NONE)/$(EMPTY)/$(NONE)", err: "missing value for EMPTY, NONE"},
		{expr: "$(UP)", err: "unable to provision SubPath `../x`: must not contain '..'"},
		{path: "/etc", err: "error SubPath `/etc` must not be an absolute path"},
		{path: "..", err: "unable to provision SubPath `..`: must not contain '..'"},
		{path: "a/../..", err: "unable to provision SubPath `a/../..`: must not contain '..'"},
	} {
		got, err := subPath(&v1.VolumeMount{SubPath: tc.path, SubPathExpr: tc.expr}, env)
		if got != tc.want || (err == nil) != (tc.err == "") || err != nil && err.Error() != tc.err {
			t.Errorf("%q%q: %q, %v; want %q, %s", tc.path, tc.expr, got, err, tc.want, tc.err)
		}
	}
}

func TestMountsAskTheHostForParts(t *testing.T) {
	dirs := &fakeDirs{}
	m := newManager(dirs, someObjects())
	pod := podWith(emptyDir("e"), hostPath("h", "/data", nil),
		source(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}}}))
	c := &pod.Spec.Containers[0]
	for i, part := range []string{"a", "b/c", "text"} {
		c.VolumeMounts[i].SubPath = part
	}
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	mounts, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: c, RestartCount: 0, Env: nil})
	if err != nil {
		t.Fatal(err)
	}
	want := []host.SubPath{
		{Volume: "e", Kind: host.EmptyDirVolume, Path: "a", Container: "web", Mount: 0},
		{Volume: "h", HostPath: "/data", Path: "b/c", Container: "web", Mount: 1},
		{Volume: "v", Kind: host.ConfigMapVolume, Path: "text", Container: "web", Mount: 2},
	}
	if diff := cmp.Diff(want, dirs.parts); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	if got := mounts[1].GetHostPath(); got != "/root/pods/u/subpaths/h/1" {
		t.Errorf("mounted %s", got)
	}
	dirs.fail = map[string]error{"part b/c": errors.New("/data/b: it is outside")}
	if _, err = m.Mounts(t.Context(), MountInput{Pod: pod, Container: c, RestartCount: 0, Env: nil}); err == nil || strings.Contains(err.Error(), "/data") ||
		err.Error() != `failed to prepare subPath for volumeMount "h" of container "web"` {
		t.Errorf("got %v", err)
	}
	dirs.fail = map[string]error{"part b/c": fmt.Errorf("/data/b: %w", errdefs.ErrAborted)}
	if _, err = m.Mounts(t.Context(), MountInput{Pod: pod, Container: c, RestartCount: 0, Env: nil}); err == nil ||
		err.Error() != `failed to create subPath directory for volumeMount "h" of container "web"` {
		t.Errorf("got %v", err)
	}
	dirs.fail = map[string]error{"part b/c": errdefs.ErrUnavailable}
	if _, err = m.Mounts(t.Context(), MountInput{Pod: pod, Container: c, RestartCount: 0, Env: nil}); !errdefs.IsUnavailable(err) {
		t.Errorf("got %v, want Unavailable", err)
	}
}

func TestMountPointsAreMadeForWhatIsMountedBelow(t *testing.T) {
	spec := &v1.PodSpec{
		InitContainers: []v1.Container{{VolumeMounts: []v1.VolumeMount{
			{Name: "v", MountPath: "/etc/app/"}, {Name: "x", MountPath: "/etc/app/init"}}}},
		Containers: []v1.Container{{VolumeMounts: []v1.VolumeMount{
			{Name: "x", MountPath: "/dir/nested-vol"}, {Name: "v", MountPath: "/dir"}, {Name: "x", MountPath: "/dir/nested/other"},
			{Name: "x", MountPath: "/dir/nested"}, {Name: "x", MountPath: "/dirt/x"}, {Name: "x", MountPath: "/"},
		}}},
	}
	got, err := mountPoints(spec, "v")
	if diff := cmp.Diff([]string{"init", "nested", "nested-vol"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	spec.Containers[0].VolumeMounts[1].MountPath = "../x"
	if _, err := mountPoints(spec, "v"); err == nil {
		t.Error("a mount point outside the container is accepted")
	}
}
