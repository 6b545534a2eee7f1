// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// start makes the container run, or says why it waits.
func (p *pass) start(ctx context.Context, c *v1.Container, containerType string) error {
	newest := p.status.Newest(c.Name)
	if p.adoptable(c, newest) {
		if err := p.adopt(ctx, c, newest.ID); err != nil {
			return err
		}
		return p.postStart(ctx, c, p.running(c, newest.ID), containerType)
	}
	if err := p.crashLoop(c, containerType); err != nil {
		return err
	}
	p.metrics.started.WithLabelValues(containerType).Inc()
	id, err := p.createAndStart(ctx, c, newest, containerType)
	if err != nil {
		return err
	}
	return p.postStart(ctx, c, p.running(c, id), containerType)
}

// running is what is known of a container that was just started.
func (p *pass) running(c *v1.Container, id string) *cri.ContainerStatus {
	return &cri.ContainerStatus{
		ID: id, Name: c.Name, SandboxID: p.sandboxID, State: cri.ContainerRunning, Hash: cri.ContainerHash(c),
	}
}

// createAndStart pulls the image, creates the container and starts it. A new pod waits for its turn in between, so that
// many of them do not slow each other down.
func (p *pass) createAndStart(ctx context.Context, c *v1.Container, newest *cri.ContainerStatus, containerType string) (string, error) {
	ref, err := p.opts.Images.EnsureImage(ctx, p.pod, c, p.sandbox)
	if err != nil {
		return "", p.imageFailed(ctx, c, containerType, err)
	}
	if err := p.ensureImageVolumes(ctx, c); err != nil {
		return "", p.imageFailed(ctx, c, containerType, err)
	}
	if err := p.reachReferences(ctx, c); err != nil {
		return "", p.failed(ctx, c, containerType, reasonConfig, err)
	}
	if err := p.turn.enter(ctx); err != nil {
		return "", err
	}
	defer p.turn.leave()
	id, err := p.create(ctx, c, newest, ref, containerType)
	if err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if err := p.startCreated(ctx, c, id); err != nil {
		return "", p.failed(ctx, c, containerType, reasonRun, withoutID(err, id, c.Name))
	}
	return id, nil
}

// adopt starts a record that was created and not started, because this process or the link died in between: it was made
// for this very start. An error is told to nobody, since the start that was cut short may have gone on by itself:
// the next observation shows what came of it.
func (p *pass) adopt(ctx context.Context, c *v1.Container, id string) error {
	if err := p.startCreated(ctx, c, id); err != nil {
		return fmt.Errorf("starting container %q, which was created earlier: %w", c.Name, err)
	}
	return nil
}

// startCreated starts a container. It is not called off half way: whoever stops the pod next must see what runs.
func (p *pass) startCreated(ctx context.Context, c *v1.Container, id string) error {
	p.result.Acted = true
	p.loops.started(p.pod.UID, c.Name, id)
	if err := p.opts.Runtime.StartContainer(context.WithoutCancel(ctx), id); err != nil {
		return err
	}
	p.containerEvent(c, v1.EventTypeNormal, "Started", "Container started")
	p.reasons.clear(p.pod.UID, c.Name)
	return nil
}

// adoptable says whether the container's newest record is one that only has to be started.
func (p *pass) adoptable(c *v1.Container, newest *cri.ContainerStatus) bool {
	return newest != nil && newest.State == cri.ContainerCreated && newest.SandboxID == p.sandboxID &&
		newest.Hash == cri.ContainerHash(c)
}

// crashLoop makes the container wait if it ended too recently for how often it did.
func (p *pass) crashLoop(c *v1.Container, containerType string) error {
	ended := newestEnded(p.status, c.Name)
	if containerType == typeInit && ended != nil && ended.SandboxID != p.sandboxID {
		ended = nil // it runs again for a new sandbox, not because it ended
	}
	until, delay, ok := p.loops.admit(p.pod, c, ended)
	if ok {
		return nil
	}
	pod := fmt.Sprintf("%s_%s(%s)", p.pod.Name, p.pod.Namespace, p.pod.UID)
	p.containerEvent(c, v1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.Name, pod))
	return p.waits(c, waiting{
		reason:  reasonCrashLoop,
		message: fmt.Sprintf("back-off %s restarting failed container=%s pod=%s", delay, c.Name, pod),
	}, &retryError{until: until, why: "back-off"})
}
