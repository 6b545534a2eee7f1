// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"fmt"
	"time"

	vklog "github.com/virtual-kubelet/virtual-kubelet/log"
	vkslog "github.com/virtual-kubelet/virtual-kubelet/log/slog"
	"github.com/virtual-kubelet/virtual-kubelet/node"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// leaseSeconds is the kubelet's nodeLeaseDurationSeconds. The lease is renewed after a quarter of it.
	leaseSeconds = 40
	// pingPeriod and pingTimeout are how often virtual-kubelet asks whether this process lives, and for how long it waits.
	pingPeriod  = 10 * time.Second
	pingTimeout = 5 * time.Second
	// reportPeriod is the kubelet's nodeStatusReportFrequency: how often a status that did not change is written.
	reportPeriod = 5 * time.Minute
	// The kubelet's back-off between attempts to register.
	registerBackoffFirst = 100 * time.Millisecond
	registerBackoffLast  = 7 * time.Second
)

// registration is one run of virtual-kubelet's node controller. It is the NodeProvider of that run.
type registration struct {
	callback func(*v1.Node)
}

var _ node.NodeProvider = (*registration)(nil)

// Ping says that this process lives. Whether the host does is a matter of the node's conditions: a failing ping would
// stop the lease, and the node would be Unknown where it can still say what is wrong.
func (*registration) Ping(ctx context.Context) error { return ctx.Err() }

// NotifyNodeStatus takes the callback for new statuses.
func (r *registration) NotifyNodeStatus(_ context.Context, callback func(*v1.Node)) {
	r.callback = callback
}

// handOver gives the node to virtual-kubelet's controller, which keeps what it is given. It blocks while two earlier
// ones are on their way to the API, and returns false if ctx ended meanwhile.
func (r *registration) handOver(ctx context.Context, n *v1.Node) bool {
	n = n.DeepCopy()
	done := make(chan struct{})
	go func() { // without join: the callback has no context, and nobody may receive any more
		defer close(done)
		r.callback(n)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// current returns the run that takes statuses, nil before the node is registered.
func (c *Controller) current() *registration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.registered
}

// newestNode returns a copy of the node as last computed.
func (c *Controller) newestNode() *v1.Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.newest.DeepCopy()
}

// register runs virtual-kubelet's controller until ctx ends. It gives up when it cannot register, so it is run again.
func (c *Controller) register(ctx context.Context) {
	backoff := registerBackoffFirst
	for ctx.Err() == nil {
		err := c.runNodeController(ctx)
		if ctx.Err() != nil {
			return
		}
		c.logger.Error("Registering the node failed, it is tried again", "node", c.opts.Config.Name, "after", backoff, "error", err)
		timer := c.opts.Clock.NewTimer(backoff)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
		backoff = min(2*backoff, registerBackoffLast)
	}
}

// runNodeController registers the node and keeps its lease and status until ctx ends or registration fails.
func (c *Controller) runNodeController(ctx context.Context) error {
	ctx, cancel := context.WithCancel(vklog.WithLogger(ctx, vkslog.FromSlog(c.logger)))
	defer cancel()
	r := &registration{}
	nc, err := node.NewNodeController(r, c.newestNode(), c.opts.Client.CoreV1().Nodes(),
		node.WithNodeEnableLeaseV1(c.opts.Client.CoordinationV1().Leases(v1.NamespaceNodeLease), leaseSeconds),
		node.WithNodePingInterval(pingPeriod),
		node.WithNodePingTimeout(pingTimeout),
		node.WithNodeStatusUpdateInterval(reportPeriod),
		node.WithNodeStatusUpdateErrorHandler(c.recreate),
	)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- nc.Run(ctx) }()
	select {
	case err := <-failed:
		return err
	case <-nc.Ready():
	}
	c.logger.Info("Node is registered", "node", c.opts.Config.Name)
	c.setRegistered(r)
	defer c.setRegistered(nil)
	return <-failed
}

func (c *Controller) setRegistered(r *registration) {
	c.mu.Lock()
	c.registered = r
	c.mu.Unlock()
	select {
	case c.view.changed <- struct{}{}: // wakes the loop
	default:
	}
}

// recreate is asked what to do after a failed write of the status. A node that somebody deleted is made again, since
// its machine is still there; virtual-kubelet then tries the write once more. Everything else is left to later writes.
func (c *Controller) recreate(ctx context.Context, err error) error {
	if !apierrors.IsNotFound(err) {
		return err
	}
	c.logger.Warn("Somebody deleted the node, it is registered again", "node", c.opts.Config.Name)
	if _, err := c.opts.Client.CoreV1().Nodes().Create(ctx, c.newestNode(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("registering node %s again: %w", c.opts.Config.Name, err)
	}
	return nil
}
