// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/image/keyring"
)

// settleTimeout bounds the notes that are made after a pull.
const settleTimeout = 30 * time.Second

// pull pulls the image unless an earlier failure is too recent.
func (m *Manager) pull(ctx context.Context, r *request) (string, error) {
	if last, waiting := m.backoff.waiting(r.pod.UID, r.named); waiting {
		message := fmt.Sprintf("Back-off pulling image %q", r.named)
		m.event(r, v1.EventTypeNormal, eventBackOff, message)
		return "", &Error{reason: ReasonImagePullBackOff, message: message + ": " + last}
	}
	credentials, err := m.credentials(ctx, r)
	if err != nil {
		return "", fmt.Errorf("looking for credentials for image %q: %w", r.named, err)
	}
	m.event(r, v1.EventTypeNormal, eventPulling, fmt.Sprintf("Pulling image %q", r.named))
	asked := m.clock.Now()
	release, err := m.turn(ctx)
	if err != nil {
		return "", fmt.Errorf("waiting to pull image %q: %w", r.named, err)
	}
	defer release()
	began := m.clock.Now()
	var ref string
	m.telling(r, began, func() { ref, err = m.pullWith(ctx, r, credentials) })
	switch {
	case err != nil && calledOff(ctx, err):
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

// pullWith pulls with the credentials that the pod has, or without if it has none, and notes who may use the image.
func (m *Manager) pullWith(ctx context.Context, r *request, credentials []keyring.Credential) (string, error) {
	if len(credentials) == 0 {
		ref, err := m.pullAs(ctx, r, nil)
		if err == nil && r.denied {
			m.remember(ctx, r, ref, nil)
		}
		return ref, err
	}
	if err := m.intend(ctx, r); err != nil {
		return "", err
	}
	ref, used, err := m.tryAll(ctx, r, credentials)
	// The end is noted even if the pod is gone: the image may be there.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err != nil {
		m.settle(ending, r, calledOff(ctx, err))
		return "", err
	}
	m.settle(ending, r, !m.remember(ending, r, ref, used))
	return ref, nil
}

// tryAll tries the credentials one after the other until the registry accepts one.
func (m *Manager) tryAll(ctx context.Context, r *request, credentials []keyring.Credential) (ref string, used *keyring.Credential, err error) {
	var failures []error
	for i := range credentials {
		ref, err := m.pullAs(ctx, r, &credentials[i])
		if err == nil {
			return ref, &credentials[i], nil
		}
		if calledOff(ctx, err) {
			return "", nil, err
		}
		failures = append(failures, err)
	}
	return "", nil, utilerrors.NewAggregate(failures)
}

func (m *Manager) pullAs(ctx context.Context, r *request, c *keyring.Credential) (string, error) {
	req := &runtimeapi.PullImageRequest{
		Image: &runtimeapi.ImageSpec{Image: r.image, Annotations: r.pod.Annotations}, SandboxConfig: r.sandbox,
	}
	if c != nil {
		req.Auth = &runtimeapi.AuthConfig{Username: c.Username, Password: c.Password}
	}
	return m.images.PullImage(ctx, req)
}

// calledOff says that an error is no answer of a registry: the pull was given up, or the runtime could not be asked. A
// deadline does not count: a pull has none of ours, so one that passed was the runtime's with a registry.
func calledOff(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errdefs.IsUnavailable(err) || errdefs.IsCanceled(err)
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
