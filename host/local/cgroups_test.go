// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// fakeCgroups notes which pods have a control group.
type fakeCgroups struct {
	mu     sync.Mutex
	driver string
	pods   map[types.UID]host.PodCgroup
	tiers  int64
	err    error // of a removal
}

func (f *fakeCgroups) Ensure(pod host.PodCgroup) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[pod.UID] = pod
	return "/x/" + string(pod.UID), nil
}

func (f *fakeCgroups) SetTiers(_ int, burstable int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tiers = burstable
	return nil
}

func (f *fakeCgroups) Remove(uid types.UID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		delete(f.pods, uid)
	}
	return f.err
}

func (f *fakeCgroups) has(uid types.UID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.pods[uid]
	return ok
}

func (f *fakeCgroups) open(driver string) CgroupManager {
	f.driver = driver
	return f
}

func newFakeCgroups() *fakeCgroups { return &fakeCgroups{pods: map[types.UID]host.PodCgroup{}} }

func withCgroups(f *fakeCgroups) func(*Options) { return func(o *Options) { o.Cgroups = f.open } }

func TestPodCgroupLivesAsLongAsThePodsDirectory(t *testing.T) {
	groups := newFakeCgroups()
	h, _ := newTestHost(t, withCgroups(groups))
	parent, err := h.EnsurePodCgroup(t.Context(), host.PodCgroup{UID: "u", Class: v1.PodQOSBurstable})
	if err != nil || parent != "/x/u" || !groups.has("u") {
		t.Fatalf("parent %q, %v", parent, err)
	}
	if groups.driver == "" {
		t.Error("made without the runtime's driver")
	}
	groups.err = errors.New("busy")
	if err := h.RemovePod(t.Context(), "u", true); !errors.Is(err, groups.err) {
		t.Fatalf("removing a busy group: %v", err)
	}
	if uids, err := h.ListPods(t.Context()); err != nil || len(uids) != 1 {
		t.Errorf("nothing reminds of the group that is left: %v, %v", uids, err)
	}
	groups.err = nil
	if err := h.RemovePod(t.Context(), "u", true); err != nil || groups.has("u") {
		t.Errorf("removing it: %v", err)
	}
	if _, err := os.Stat(filepath.Join(h.rootDir, podsDir, "u")); !os.IsNotExist(err) {
		t.Errorf("the directory: %v", err)
	}
}

func TestBadPodCgroupsAreRefused(t *testing.T) {
	h, _ := newTestHost(t, withCgroups(newFakeCgroups()))
	for _, pod := range []host.PodCgroup{{UID: "../x", Class: v1.PodQOSBurstable}, {UID: "", Class: v1.PodQOSBurstable}, {UID: "u"}, {UID: "u", Class: "../x"}} {
		if _, err := h.EnsurePodCgroup(t.Context(), pod); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%+v: %v", pod, err)
		}
	}
}

func TestRuntimeThatDoesNotTellItsDriverMakesTheCgroupsItself(t *testing.T) {
	groups := newFakeCgroups()
	h, rt := newTestHost(t, withCgroups(groups))
	rt.set(func(r *fakeRuntime) { r.err = errdefs.ErrNotImplemented })
	if _, err := h.EnsurePodCgroup(t.Context(), host.PodCgroup{UID: "u", Class: v1.PodQOSBurstable}); !errdefs.IsNotImplemented(err) {
		t.Errorf("got %v", err)
	}
	if err := h.SetCgroupTiers(t.Context(), 7); !errdefs.IsNotImplemented(err) {
		t.Errorf("tiers: %v", err)
	}
	if err := h.RemovePod(t.Context(), "u", true); err != nil {
		t.Errorf("removing: %v", err)
	}
	rt.set(func(r *fakeRuntime) { r.err = errdefs.ErrUnavailable })
	if err := h.RemovePod(t.Context(), "u", true); err != nil {
		t.Errorf("removing what is gone, without the runtime: %v", err)
	}
	if err := h.EnsurePod(t.Context(), host.Pod{UID: "u", Namespace: "ns", Name: "p"}, nil); err != nil {
		t.Fatal(err)
	}
	if err := h.RemovePod(t.Context(), "u", true); !errdefs.IsUnavailable(err) {
		t.Errorf("removing without the runtime: %v", err)
	}
}
