// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

// slowImages pulls "hang:v1" never, everything else in a second.
func slowImages() *fakeImages {
	return &fakeImages{
		status: present("sha256:pulled", 5<<20),
		pull: func(ctx context.Context, req *runtimeapi.PullImageRequest) (string, error) {
			var done <-chan time.Time
			if req.GetImage().GetImage() != "hang:v1" {
				done = time.After(time.Second)
			}
			select {
			case <-done:
				return "sha256:pulled", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		},
	}
}

func TestHangingPullOfOnePodDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := &events{}
		m := New(Options{Images: slowImages(), Records: newFakeRecords(), Clock: clock.RealClock{}, Recorder: recorder})
		ctx, cancel := context.WithCancel(t.Context())
		hung := make(chan error)
		go func() {
			pod := testPod("hung", "hang:v1", v1.PullAlways)
			_, err := m.EnsureImage(ctx, pod, &pod.Spec.Containers[0], nil)
			hung <- err
		}()
		synctest.Wait()
		began := time.Now()
		pod := testPod("quick", "app:v1", v1.PullAlways)
		if _, err := m.EnsureImage(t.Context(), pod, &pod.Spec.Containers[0], nil); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("the other pod's pull took %v instead of its own second", took)
		}
		recorder.take()

		cancel() // the hung pod is deleted
		err := <-hung
		var waiting *Error
		if !errors.Is(err, context.Canceled) || errors.As(err, &waiting) {
			t.Errorf("cancelled pull: %v, want the context's error without a waiting reason", err)
		}
		if got := recorder.take(); len(got) > 0 {
			t.Errorf("a cancelled pull was told of: %q", got)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("the pull went on for %v after it was cancelled", took-time.Second)
		}
	})
}

func TestSerialPullsWaitForTheirTurnAndTellHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		recorder := &events{}
		registry := prometheus.NewRegistry()
		m := New(Options{Images: slowImages(), Records: newFakeRecords(), Clock: clock.RealClock{}, Recorder: recorder, MaxParallelPulls: 1, Registerer: registry})
		ensure := func(ctx context.Context, uid, image string) error {
			pod := testPod(uid, image, v1.PullAlways)
			_, err := m.EnsureImage(ctx, pod, &pod.Spec.Containers[0], nil)
			return err
		}
		first, second, third := make(chan error), make(chan error), make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { first <- ensure(t.Context(), "1", "one:v1") }()
		synctest.Wait()
		time.Sleep(250 * time.Millisecond)
		go func() { second <- ensure(t.Context(), "2", "two:v1") }()
		go func() { third <- ensure(ctx, "3", "three:v1") }()
		synctest.Wait()
		cancel()
		if err := <-third; !errors.Is(err, context.Canceled) {
			t.Errorf("waiting for a turn: %v, want the context's error", err)
		}
		if err := errors.Join(<-first, <-second); err != nil {
			t.Error(err)
		}
		var done []string
		for _, e := range recorder.take() {
			if strings.Contains(e, " Normal Pulled ") {
				done = append(done, e)
			}
		}
		want := []string{
			`spec.containers{web} Normal Pulled Successfully pulled image "one:v1" in 1s (1s including waiting). Image size: 5242880 bytes.`,
			`spec.containers{web} Normal Pulled Successfully pulled image "two:v1" in 1s (1.75s including waiting). Image size: 5242880 bytes.`,
		}
		if diff := cmp.Diff(want, done); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if n := testutil.CollectAndCount(m.metrics.pullDuration); n != 1 {
			t.Errorf("%d series of pull durations, want the one of 0-10MB", n)
		}
		if v := testutil.ToFloat64(m.metrics.requests.WithLabelValues("always", "unknown", "true")); v != 3 {
			t.Errorf("%v requests counted, want 3", v)
		}
	})
}

func TestSizeBucketsAreTheKubelets(t *testing.T) {
	for _, tc := range []struct {
		bytes uint64
		want  string
	}{
		{0, "N/A"}, {1, "0-10MB"}, {10 << 20, "0-10MB"}, {10<<20 + 1, "10MB-100MB"}, {600 << 20, "500MB-1GB"},
		{1 << 40, "GT100GB"},
	} {
		if got := sizeBucket(tc.bytes); got != tc.want {
			t.Errorf("%d bytes: %s, want %s", tc.bytes, got, tc.want)
		}
	}
}
