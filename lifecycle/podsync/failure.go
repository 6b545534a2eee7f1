// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// imageFailed tells of a start that failed for want of an image. The Images have told the details already.
func (p *pass) imageFailed(ctx context.Context, c *v1.Container, containerType string, err error) error {
	reason, about := imageReason(err)
	if ctx.Err() != nil || !about {
		return fmt.Errorf("starting container %q: %w", c.Name, err)
	}
	return p.told(c, containerType, waiting{reason, err.Error()}, reason, err)
}

// failed tells of a start that failed with err, unless err is nothing to tell.
func (p *pass) failed(ctx context.Context, c *v1.Container, containerType, reason string, err error) error {
	if untold(ctx, err) {
		return fmt.Errorf("starting container %q: %w", c.Name, err)
	}
	return p.told(c, containerType, waiting{reason, err.Error()}, err.Error(), err)
}

// told tells of a failed start and remembers why the container waits.
func (p *pass) told(c *v1.Container, containerType string, w waiting, text string, cause error) error {
	p.containerEvent(c, v1.EventTypeWarning, "Failed", "Error: "+text)
	p.metrics.failed.WithLabelValues(containerType, w.reason).Inc()
	return p.waits(c, w, cause)
}

// waits remembers why the container waits.
func (p *pass) waits(c *v1.Container, w waiting, cause error) error {
	p.reasons.set(p.pod.UID, c.Name, w)
	return &startError{container: c.Name, waiting: w, cause: cause}
}
