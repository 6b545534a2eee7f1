// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

func TestWatchedPodsCrossTheLinkInOrder(t *testing.T) {
	want := []host.PodsChanged{
		{UIDs: []types.UID{"a", "b"}, Digests: []uint64{math.MaxUint64, 0}, Digest: math.MaxUint64}, {Digest: 0},
		{UIDs: []types.UID{"c"}, Digest: 1}, // of a host that tells no digests of pods
	}
	fake := &fakeHost{watch: func(_ context.Context, changed func(host.PodsChanged) error) error {
		for _, pods := range want {
			if err := changed(pods); err != nil {
				return err
			}
		}
		return errdefs.ErrUnavailable
	}}
	l := connect(t, fake, nil)
	req := host.WatchRequest{Labels: map[string]string{"k": "v", "k2": ""}, DigestPeriod: 1500 * time.Millisecond}
	var got []host.PodsChanged
	err := l.client.WatchPods(t.Context(), req, func(pods host.PodsChanged) error {
		got = append(got, pods)
		return nil
	})
	if !errdefs.IsUnavailable(err) {
		t.Errorf("ended with %v", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]any{req}, fake.asked); diff != "" {
		t.Errorf("asked: %s", diff)
	}
}

// endlessWatch tells once and goes on until its caller is gone.
func endlessWatch(ended chan<- struct{}) *fakeHost {
	return &fakeHost{watch: func(ctx context.Context, changed func(host.PodsChanged) error) error {
		defer func() { ended <- struct{}{} }()
		if err := changed(host.PodsChanged{}); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}}
}

func TestWatchEndsOnBothSides(t *testing.T) {
	ended := make(chan struct{}, 1)
	l := connect(t, endlessWatch(ended), nil)
	broken := errors.New("broken")
	for _, test := range []struct {
		name string
		end  func(cancel func()) error
		want func(error) bool
	}{
		{"receiver fails", func(func()) error { return broken }, func(err error) bool { return errors.Is(err, broken) }},
		{"receiver leaves", func(cancel func()) error { cancel(); return nil },
			func(err error) bool { return errors.Is(err, context.Canceled) && !errdefs.IsUnavailable(err) }},
		{"link breaks", func(func()) error { l.cut(); return nil }, errdefs.IsUnavailable},
		{"host stops", func(func()) error { go l.stop(); return nil }, errdefs.IsUnavailable},
	} {
		t.Run(test.name, func(t *testing.T) { watchUntil(t, l, ended, test.end, test.want) })
	}
}

func watchUntil(t *testing.T, l *link, ended <-chan struct{}, end func(cancel func()) error, want func(error) bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var err error
	eventually(t, "the host is reached", func() bool {
		reached := false
		err = l.client.WatchPods(ctx, host.WatchRequest{}, func(host.PodsChanged) error {
			reached = true
			return end(cancel)
		})
		return reached
	})
	if !want(err) {
		t.Errorf("ended with %v", err)
	}
	<-ended
}
