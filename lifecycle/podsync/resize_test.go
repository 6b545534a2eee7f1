// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// fakeResizer notes what it is asked.
type fakeResizer struct {
	restarts map[string]bool // ids
	created  []string        // names
	applied  [][]string      // names of what runs, of each call
	failed   []string        // what was told
	acted    bool
	err      error
}

func (f *fakeResizer) Restarts(_ *v1.Pod, _ *v1.Container, cs *cri.ContainerStatus) bool {
	return f.restarts[cs.ID]
}

func (f *fakeResizer) Apply(_ context.Context, _ *v1.Pod, status *cri.PodStatus) (bool, error) {
	var names []string
	for _, c := range status.Running() {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	f.applied = append(f.applied, names)
	return f.acted, f.err
}

// Settled has nothing to say: no pod of these tests asks for something as a whole.
func (f *fakeResizer) Settled(*v1.Pod) bool { return false }

func (f *fakeResizer) Failed(_ *v1.Pod, err error) { f.failed = append(f.failed, err.Error()) }

func (f *fakeResizer) Created(_ *v1.Pod, c *v1.Container, _ string) {
	f.created = append(f.created, c.Name)
}

func resizing(t *testing.T, containers string, body func(t *testing.T, b *bench, f *fakeResizer)) {
	t.Helper()
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, containers)
		f := &fakeResizer{restarts: map[string]bool{}}
		b.syncer.opts.Resizer = f
		body(t, b, f)
	})
}

func TestContainerWhoseResizeNeedsARestartIsRestartedInOneSync(t *testing.T) {
	resizing(t, "web,log", func(t *testing.T, b *bench, f *fakeResizer) {
		b.mustSync(t)
		f.restarts[b.newest(t, "web").ID] = true
		b.events.take()
		b.mustSync(t)
		b.wantRecords(t, "web/0 exited", "log/0 running", "web/1 running")
		b.wantEvents(t, "Killing spec.containers{web}: Container web resize requires restart, will be restarted",
			"Created spec.containers{web}: Container created", "Started spec.containers{web}: Container started")
		if diff := cmp.Diff([][]string{{"log"}}, f.applied); diff != "" {
			t.Errorf("applied to (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"web", "log", "web"}, f.created); diff != "" {
			t.Errorf("created (-want +got):\n%s", diff)
		}
	})
}

func TestInitContainersAreRestartedForTheirResources(t *testing.T) {
	for name, marks := range map[string]string{"sidecar": "first:sidecar", "init container": ""} {
		t.Run(name, func(t *testing.T) {
			resizing(t, "first|web", func(t *testing.T, b *bench, f *fakeResizer) {
				mark(t, b.pod, marks)
				b.mustSync(t)
				f.restarts[b.newest(t, "first").ID] = true
				b.mustSync(t)
				if c := b.newest(t, "first"); c.Attempt != 1 || !c.Alive {
					t.Errorf("newest record %+v", c)
				}
			})
		})
	}
}

func TestResizeThatFailsDoesNotHoldUpStarts(t *testing.T) {
	resizing(t, "web,log", func(t *testing.T, b *bench, f *fakeResizer) {
		b.mustSync(t)
		b.exit(t, "log", 1)
		f.err = errors.New("memory in use")
		r := b.sync(t)
		if !errors.Is(r.Err, f.err) || r.Resized {
			t.Errorf("result %+v", r)
		}
		b.wantRecords(t, "web/0 running", "log/0 exited", "log/1 running")
		f.err, f.acted = nil, true
		if r := b.mustSync(t); !r.Resized || !r.Acted {
			t.Errorf("result %+v", r)
		}
	})
}

func TestNothingIsResizedOfAPodThatGoesOrIsMadeAnew(t *testing.T) {
	resizing(t, "web", func(t *testing.T, b *bench, f *fakeResizer) {
		b.mustSync(t) // makes the sandbox
		b.rt.KillSandbox(b.rt.Sandboxes(b.pod.UID)[0].ID)
		b.mustSync(t)
		b.pod.DeletionTimestamp = &b.pod.CreationTimestamp
		b.mustSync(t)
		if len(f.applied) != 0 {
			t.Errorf("applied to %v", f.applied)
		}
	})
}
