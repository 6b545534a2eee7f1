// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

const (
	// relistPeriod is the time from the end of one look at the runtime to the next one, as in the kubelet.
	relistPeriod = time.Second
	// relistGap is the least such time, however many events there are, and relistShare how many times as long as the look it is:
	// a runtime that has much to do is asked a fifth of the time at most, unless that took longer than longestGap.
	relistGap   = 50 * time.Millisecond
	relistShare = 4
	longestGap  = 5 * time.Second
)

// WatchPods looks at the runtime every second, and whenever an event of the runtime hints at an end. Each watch looks for
// itself: a host has one node, rarely more.
func (h *Host) WatchPods(ctx context.Context, req host.WatchRequest, changed func(host.PodsChanged) error) error {
	switch {
	case len(req.Labels) == 0:
		return fmt.Errorf("a watch needs labels, or it would tell of pods that are not the caller's: %w", errdefs.ErrInvalidArgument)
	case req.DigestPeriod <= 0:
		return fmt.Errorf("digest period %s is not positive: %w", req.DigestPeriod, errdefs.ErrInvalidArgument)
	}
	hints := newHints(h.runtime, req.Labels, h.clock, h.logger)
	defer hints.close()
	w := &podWatch{host: h, req: req, hints: hints.wake}
	return w.run(ctx, changed)
}

// podWatch is one watch. A receiver that is slow holds up the next look, so that what it gets is never out of date and
// nothing has to be kept for it.
type podWatch struct {
	host  *Host
	req   host.WatchRequest
	hints <-chan struct{}

	known  picture // what the receiver knows, nil before the first message
	sentAt time.Time
}

// object is a sandbox or container as a list tells of it.
type object struct {
	uid   types.UID
	state int32
}

// picture is what there is in the runtime, by id.
type picture map[string]object

func (w *podWatch) run(ctx context.Context, changed func(host.PodsChanged) error) error {
	for {
		begin := w.host.clock.Now()
		now, err := w.observe(ctx)
		if err != nil {
			return err
		}
		took := w.host.clock.Since(begin)
		if err := w.tell(now, changed); err != nil {
			return err
		}
		if err := w.pause(ctx, took); err != nil {
			return err
		}
	}
}

// tell tells what the receiver does not know.
func (w *podWatch) tell(now picture, changed func(host.PodsChanged) error) error {
	uids := w.known.changes(now)
	if w.known != nil && len(uids) == 0 && w.host.clock.Since(w.sentAt) < w.req.DigestPeriod {
		return nil
	}
	if err := changed(host.PodsChanged{UIDs: uids, Digests: now.digests(uids), Digest: now.digest()}); err != nil {
		return err
	}
	w.known, w.sentAt = now, w.host.clock.Now()
	return nil
}

// observe lists what there is. That the runtime does not answer is Unavailable.
func (w *podWatch) observe(ctx context.Context) (picture, error) {
	sandboxes, err := w.host.runtime.SelectSandboxes(ctx, w.req.Labels)
	if err != nil {
		return nil, unobservable(ctx, err)
	}
	containers, err := w.host.runtime.SelectContainers(ctx, w.req.Labels)
	if err != nil {
		return nil, unobservable(ctx, err)
	}
	now := make(picture, len(sandboxes)+len(containers))
	for _, s := range sandboxes {
		now[s.GetId()] = object{uid: types.UID(s.GetMetadata().GetUid()), state: int32(s.GetState())}
	}
	for _, c := range containers {
		now[c.GetId()] = object{uid: types.UID(c.GetLabels()[cri.LabelPodUID]), state: int32(c.GetState())}
	}
	return now, nil
}

func unobservable(ctx context.Context, err error) error {
	if ctx.Err() == nil && cri.OutcomeUnknown(err) {
		return fmt.Errorf("observing the runtime: %w: %w", errdefs.ErrUnavailable, err)
	}
	return fmt.Errorf("observing the runtime: %w", err)
}

// pause waits until it is time for the next look after one that took so long.
func (w *podWatch) pause(ctx context.Context, took time.Duration) error {
	gap := min(max(relistShare*took, relistGap), longestGap)
	if err := w.wait(ctx, gap, nil); err != nil {
		return err
	}
	if gap >= relistPeriod {
		return nil
	}
	return w.wait(ctx, relistPeriod-gap, w.hints)
}

func (w *podWatch) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) error {
	timer := w.host.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
	case <-wake:
	}
	return nil
}

// changes returns the pods that differ in now, in ascending order.
func (p picture) changes(now picture) []types.UID {
	differ := map[types.UID]struct{}{}
	for id, o := range now {
		if p[id] != o {
			differ[o.uid] = struct{}{}
		}
	}
	for id, o := range p {
		if _, there := now[id]; !there {
			differ[o.uid] = struct{}{}
		}
	}
	var uids []types.UID
	for uid := range differ {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return uids
}

// digests returns the digest of each of the pods.
func (p picture) digests(uids []types.UID) []uint64 {
	pods := make(map[types.UID][]host.ObjectState, len(uids))
	for id, o := range p {
		pods[o.uid] = append(pods[o.uid], host.ObjectState{ID: id, State: o.state})
	}
	var out []uint64
	for _, uid := range uids {
		out = append(out, host.PodsDigest(pods[uid]))
	}
	return out
}

func (p picture) digest() uint64 {
	objects := make([]host.ObjectState, 0, len(p))
	for id, o := range p {
		objects = append(objects, host.ObjectState{ID: id, State: o.state})
	}
	return host.PodsDigest(objects)
}

// concerns says whether an event tells of an end that may be that of an object with the labels. One that does not say whose may
// be. What is made, started and removed is so by the receiver, who looks for itself.
func concerns(event *runtimeapi.ContainerEventResponse, labels map[string]string) bool {
	if event.GetContainerEventType() != runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT {
		return false
	}
	sandbox := event.GetPodSandboxStatus()
	if sandbox == nil {
		return true
	}
	for k, v := range labels {
		if got, ok := sandbox.GetLabels()[k]; !ok || got != v {
			return false
		}
	}
	return true
}
