// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package evict

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
)

// meter measures pods; those without a usage take for ever.
type meter struct {
	mu    sync.Mutex
	usage map[types.UID]*host.PodUsage
	err   error
	asked map[types.UID]int
}

func (m *meter) PodUsage(ctx context.Context, pod host.Pod, _ bool) (*host.PodUsage, error) {
	m.mu.Lock()
	m.asked[pod.UID]++
	usage, err := m.usage[pod.UID], m.err
	m.mu.Unlock()
	if usage == nil && err == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return usage, err
}

func limitedPod(uid types.UID) *v1.Pod {
	p := podWith("1Mi", "", "")
	p.UID = uid
	return p
}

func TestPodThatTakesTooMuchIsEvictedBesideOneThatIsMeasuredForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := &host.PodUsage{Volumes: map[string]int64{"cache": 2 << 20}}
		m := &meter{asked: map[types.UID]int{}, usage: map[types.UID]*host.PodUsage{"good": {}, "free": over, "bad": over}, err: errdefs.ErrUnavailable}
		free := podWith("", "", "")
		free.UID = "free"
		pods := []*v1.Pod{limitedPod("slow"), limitedPod("good"), free, limitedPod("bad")}
		var mu sync.Mutex
		var evicted []types.UID
		registry := prometheus.NewRegistry()
		manager := New(Options{Usage: m, Clock: clock.RealClock{}, Registerer: registry, Pods: func() []*v1.Pod { return pods }, Evict: func(pod *v1.Pod, _ Verdict) bool {
			mu.Lock()
			defer mu.Unlock()
			evicted = append(evicted, pod.UID)
			return len(evicted) == 1
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); manager.Run(ctx) }()
		time.Sleep(5*Period + time.Second)
		mu.Lock()
		if len(evicted) > 0 {
			t.Errorf("evicted %v while the link was cut", evicted)
		}
		mu.Unlock()
		m.mu.Lock()
		m.err, m.asked = nil, map[types.UID]int{}
		m.mu.Unlock()
		time.Sleep(2 * Period)
		cancel()
		<-done
		if diff := cmp.Diff([]types.UID{"bad", "bad"}, evicted); diff != "" {
			t.Errorf("evicted: %s", diff)
		}
		if diff := cmp.Diff(map[types.UID]int{"slow": 1, "good": 2, "bad": 2}, m.asked); diff != "" {
			t.Errorf("measured: %s", diff)
		}
		if n := testutil.ToFloat64(manager.metrics.evictions.WithLabelValues(SignalEmptyDir)); n != 1 {
			t.Errorf("%v evictions are counted", n)
		}
	})
}
