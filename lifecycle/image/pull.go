// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// pull pulls the image unless an earlier failure is too recent.
func (m *Manager) pull(ctx context.Context, r *request) (string, error) {
	if last, waiting := m.backoff.waiting(r.pod.UID, r.named); waiting {
		message := fmt.Sprintf("Back-off pulling image %q", r.named)
		m.event(r, v1.EventTypeNormal, eventBackOff, message)
		return "", &Error{reason: ReasonImagePullBackOff, message: message + ": " + last}
	}
	m.event(r, v1.EventTypeNormal, eventPulling, fmt.Sprintf("Pulling image %q", r.named))
	asked := m.clock.Now()
	release, err := m.turn(ctx)
	if err != nil {
		return "", fmt.Errorf("waiting to pull image %q: %w", r.named, err)
	}
	defer release()
	began := m.clock.Now()
	ref, err := m.images.PullImage(ctx, &runtimeapi.PullImageRequest{
		Image:         &runtimeapi.ImageSpec{Image: r.image, Annotations: r.pod.Annotations},
		SandboxConfig: r.sandbox,
	})
	switch {
	case err != nil && (ctx.Err() != nil || errdefs.IsUnavailable(err) || errdefs.IsCanceled(err)):
		// A deadline is not among these: a pull has none of ours, so one that passed was the runtime's with a registry.
		return "", fmt.Errorf("pulling image %q: %w", r.named, err)
	case err != nil:
		failure := pullError(r.named, err)
		m.event(r, v1.EventTypeWarning, eventFailed, fmt.Sprintf("Failed to pull image %q: %v", r.named, err))
		m.backoff.failed(r.pod.UID, r.named, failure)
		return "", failure
	}
	m.pulled(ctx, r, asked, began)
	return ref, nil
}

// turn waits until a pull may begin; release ends it.
func (m *Manager) turn(ctx context.Context) (release func(), err error) {
	if m.turns == nil {
		return func() {}, nil
	}
	if err := m.turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { m.turns.Release(1) }, nil
}

// pulled tells of a finished pull. The size is asked for this purpose only, so that it is missing is no error.
func (m *Manager) pulled(ctx context.Context, r *request, asked, began time.Time) {
	now := m.clock.Now()
	took, all := now.Sub(began).Truncate(time.Millisecond), now.Sub(asked).Truncate(time.Millisecond)
	var size uint64
	if status, err := m.images.ImageStatus(ctx, r.image); err == nil {
		size = status.GetSize()
	}
	m.event(r, v1.EventTypeNormal, eventPulled, fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", r.named, took, all, size))
	m.metrics.pulled(size, all)
	m.backoff.delays.GC()
}
