// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// fakeProfiles are profiles by their path. One without content cannot be read.
type fakeProfiles map[string]string

func (f fakeProfiles) Seccomp(name string) ([]byte, error) {
	data, ok := f[name]
	switch {
	case !ok:
		return nil, errdefs.ErrNotFound
	case data == "":
		return nil, errdefs.ErrPermissionDenied
	}
	return []byte(data), nil
}

// fakeSets keeps what was written last.
type fakeSets struct{ last *host.FileSet }

func (f *fakeSets) WriteFiles(_ context.Context, uid types.UID, set host.FileSet) (string, error) {
	f.last = &set
	return "/brought/" + string(uid), nil
}

func TestProfilesBesideTheNodeAreBroughtToTheHost(t *testing.T) {
	localhost := func(name string) *v1.SeccompProfile {
		return &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &name}
	}
	container := func(name string, profile *v1.SeccompProfile) v1.Container {
		return v1.Container{Name: name, SecurityContext: &v1.SecurityContext{SeccompProfile: profile}}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		Volumes:         []v1.Volume{{Name: "tombolo-seccomp"}, {Name: "xtombolo-seccomp"}}, // as if to be taken for ours
		SecurityContext: &v1.PodSecurityContext{SeccompProfile: localhost("all.json")},
		InitContainers:  []v1.Container{container("own", localhost("host/only.json"))},
		Containers: []v1.Container{
			{Name: "as-pod"}, container("named", localhost("a/./deny.json")), container("none", &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}),
		},
	}}
	pod.UID = "u"
	sets := &fakeSets{}
	p := &pass{Syncer: &Syncer{opts: Options{FileSets: sets}}, pod: pod, facts: &host.Facts{RootDir: "/root"}}
	dirOf := func(c v1.Container) string {
		t.Helper()
		dir, err := p.seccompDir(t.Context(), &c)
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	named := pod.Spec.Containers[1]
	if dir := dirOf(named); dir != "/root/seccomp" || sets.last != nil {
		t.Errorf("without profiles beside the node: %s, written %v", dir, sets.last)
	}
	p.opts.Profiles = fakeProfiles{"all.json": "all", "a/deny.json": "deny", "other.json": "other"}
	for name, want := range map[string]string{"own": "/root/seccomp", "as-pod": "/brought/u", "named": "/brought/u", "none": "/root/seccomp"} {
		for _, c := range podrules.Containers(pod) {
			if c.Name == name && dirOf(*c) != want {
				t.Errorf("container %s: %s, want %s", name, dirOf(*c), want)
			}
		}
	}
	want := &host.FileSet{Volume: "xxtombolo-seccomp", Kind: host.ConfigMapVolume, Files: []host.File{
		{Path: "all.json", Data: []byte("all"), Mode: profileMode}, {Path: "a/deny.json", Data: []byte("deny"), Mode: profileMode},
	}}
	if diff := cmp.Diff(want, sets.last); diff != "" {
		t.Errorf("brought (-want +got):\n%s", diff)
	}
	p.opts.Profiles = fakeProfiles{"a/deny.json": ""}
	if dir, err := p.seccompDir(t.Context(), &named); !errdefs.IsPermissionDenied(err) {
		t.Errorf("a profile that cannot be read: %s, %v", dir, err)
	}
}
