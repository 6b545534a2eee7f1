// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package gc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
)

// unknownGrace is how long a container in unknown state has to stop before its record is removed: the least the kubelet
// gives to any container.
const unknownGrace = 2 * time.Second

// sweep carries out a plan, unless the pod is being swept already: the runtime refuses to remove what it is removing. What
// fails is left, with everything that depends on it, to the next pass.
func (c *Collector) sweep(ctx context.Context, p *plan) error {
	if !c.begin(p.uid) {
		return nil
	}
	defer c.end(p.uid)
	if removable, known := c.opts.Pods(p.uid); p.everything && !removable || !p.everything && !known {
		return nil // the answer changed while others were swept
	}
	var errs []error
	gone := map[string]bool{}
	for _, dead := range p.containers {
		if err := c.removeContainer(ctx, dead, !p.everything); err != nil {
			errs = append(errs, err)
			continue
		}
		gone[dead.id] = true
	}
	for _, dead := range p.sandboxes {
		if slices.ContainsFunc(dead.containers, func(id string) bool { return !gone[id] }) {
			continue
		}
		if err := c.removeSandbox(ctx, dead.id); err != nil {
			errs = append(errs, err)
		}
	}
	if n := len(p.containers) + len(p.sandboxes); n > 0 {
		c.log.Debug("removed remains of a pod", "uid", p.uid, "containers", len(gone), "sandboxes", len(p.sandboxes), "errors", len(errs))
	}
	if len(errs) == 0 && p.everything && !p.remains {
		if err := c.opts.Dirs.RemovePod(ctx, p.uid, true); err != nil {
			errs = append(errs, fmt.Errorf("removing the directory of pod %s: %w", p.uid, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Collector) begin(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[uid] {
		return false
	}
	c.busy[uid] = true
	return true
}

func (c *Collector) end(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, uid)
}

// removeContainer removes a container record. Its log files go first, so that none is left without a record that names
// it; those of a pod that is gone go with its log directory instead.
func (c *Collector) removeContainer(ctx context.Context, dead deadContainer, withLogs bool) error {
	if dead.unknown {
		if err := c.opts.Runtime.StopContainer(ctx, dead.id, unknownGrace); err != nil {
			return fmt.Errorf("stopping container %q, which is in unknown state: %w", dead.id, err)
		}
	}
	if withLogs {
		if err := c.removeLogs(ctx, dead.id); err != nil {
			return err
		}
	}
	if err := c.opts.Runtime.RemoveContainer(ctx, dead.id); err != nil {
		return fmt.Errorf("removing container %q: %w", dead.id, err)
	}
	return nil
}

func (c *Collector) removeLogs(ctx context.Context, id string) error {
	status, err := c.opts.Runtime.ContainerStatus(ctx, id)
	if errdefs.IsNotFound(err) {
		return nil // removed in the meantime, by one who knew its logs
	}
	if err != nil {
		return fmt.Errorf("finding the logs of container %q: %w", id, err)
	}
	if status.GetLogPath() == "" {
		return nil
	}
	if err := c.opts.Logs.RemoveLogs(ctx, status.GetLogPath()); err != nil {
		return fmt.Errorf("removing the logs of container %q: %w", id, err)
	}
	return nil
}

// removeSandbox stops the sandbox before, in case that its network was not torn down completely.
func (c *Collector) removeSandbox(ctx context.Context, id string) error {
	if err := c.opts.Runtime.StopSandbox(ctx, id); err != nil {
		return fmt.Errorf("stopping sandbox %q before its removal: %w", id, err)
	}
	if err := c.opts.Runtime.RemoveSandbox(ctx, id); err != nil {
		return fmt.Errorf("removing sandbox %q: %w", id, err)
	}
	return nil
}
