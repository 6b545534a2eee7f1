// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// tiersPeriod is how often the weights of the classes of pods are set although they are the same, as in the kubelet: the
// machine may have forgotten them.
const tiersPeriod = time.Minute

// tiers is what the machine was told last of the weights of classes. Its zero value is ready.
type tiers struct {
	mu     sync.Mutex
	busy   bool
	shares int64
	at     time.Time // of the last success; zero before
}

// begin says whether the shares are to be told, and notes that they are being told.
func (t *tiers) begin(shares int64, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy || !t.at.IsZero() && t.shares == shares && now.Sub(t.at) < tiersPeriod {
		return false
	}
	t.busy = true
	return true
}

func (t *tiers) end(shares int64, now time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = false
	if err == nil || errdefs.IsNotImplemented(err) {
		t.shares, t.at = shares, now
	}
}

// setTiers tells the machine what the burstable pods weigh together: what they request.
func (e *Engine) setTiers(ctx context.Context, wg *sync.WaitGroup, active []*v1.Pod) {
	if e.opts.NoPodCgroups {
		return
	}
	shares := burstableShares(active)
	if !e.tiers.begin(shares, e.clock.Now()) {
		return
	}
	wg.Go(func() {
		timed, cancel := context.WithTimeout(ctx, cri.DefaultTimeout)
		defer cancel()
		err := e.opts.Host.SetCgroupTiers(timed, shares)
		e.tiers.end(shares, e.clock.Now(), err)
		if err != nil && ctx.Err() == nil && !errdefs.IsNotImplemented(err) && !errdefs.IsUnavailable(err) {
			e.log.Warn("setting the weights of classes of pods", "error", err)
		}
	})
}

func burstableShares(pods []*v1.Pod) int64 {
	var milli int64
	for _, pod := range pods {
		if podrules.QOSClass(pod) == v1.PodQOSBurstable {
			requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
			milli += requests.Cpu().MilliValue()
		}
	}
	return cri.CPUShares(milli)
}
