// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"log/slog"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/provider/machine"
)

const (
	// updatePeriod is the kubelet's nodeStatusUpdateFrequency: how often the API's node is compared with ours, and the least
	// time between two writes of the same status.
	updatePeriod = 10 * time.Second
	// notReadyPeriod is how often a node that is not ready is computed, so that it becomes ready soon.
	notReadyPeriod = time.Second
	// waitingLogPeriod is how often the log says what registration waits for.
	waitingLogPeriod = 5 * time.Second
	// writeTimeout bounds one write of the list of images.
	writeTimeout = 10 * time.Second
)

// Machine is what is known of the machine behind the link. No method blocks.
type Machine interface {
	// State returns what is known now.
	State() machine.State
	// Changes has a token when there may be something new since the last receive.
	Changes() <-chan struct{}
}

// Options are what a Controller is made of. All fields but Logger are required.
type Options struct {
	Config  Config
	Machine Machine
	// Engine is nil while pods are looked after; its error becomes part of the Ready condition.
	Engine func() error
	// Client reads and writes the Node object and its lease. Its requests should have a timeout well below the lease's 40
	// seconds.
	Client kubernetes.Interface
	// Watches watches the Node object. Its requests must have no timeout.
	Watches kubernetes.Interface
	// Recorder takes the node's events.
	Recorder record.EventRecorder
	Clock    clock.Clock
	// Logger may be nil.
	Logger *slog.Logger
}

// Controller keeps one Node object true.
type Controller struct {
	opts   Options
	view   *view
	logger *slog.Logger

	// The fields of the loop, used by its goroutine only.
	pressures   pressures
	skew        skew
	outages     outages
	sent        *v1.Node
	sentAt      time.Time
	imagesAt    time.Time
	waitingAt   time.Time
	registering bool
	// resolvConf is what was last looked at, nil before.
	resolvConf *string

	mu sync.Mutex
	// newest is the node as last computed.
	newest *v1.Node
	// remembered is the node of an earlier process, as the API had it before registration, or nil.
	remembered *v1.Node
	// registered is virtual-kubelet's controller that runs now, nil before the node is registered.
	registered *registration
}

// New makes a controller. It does nothing before Run.
func New(o Options) *Controller {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Controller{
		opts: o, logger: logger, view: newView(o.Watches, o.Config.Name, o.Clock),
		waitingAt: o.Clock.Now(), // a short wait needs no words
	}
}

// Node returns the node as the API last showed it, nil if it has none. It is shared and must not be changed.
func (c *Controller) Node() *v1.Node {
	node, _ := c.view.get()
	return node
}

// Run keeps the node true until ctx ends. While the API is away it retries for ever.
func (c *Controller) Run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { c.view.reflector.RunWithContext(ctx) })
	for {
		pause := c.pass(ctx, &parts)
		timer := c.opts.Clock.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-c.opts.Machine.Changes():
		case <-c.view.changed:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// pass computes the node once and sees to it that the API learns of it. It returns after how long to look again even
// if nothing happens.
func (c *Controller) pass(ctx context.Context, parts *sync.WaitGroup) time.Duration {
	state := c.opts.Machine.State()
	node := c.compute(&state)
	if node == nil {
		c.logWaiting(&state)
		return notReadyPeriod
	}
	if !c.registering {
		c.registering = true
		parts.Go(func() { c.register(ctx) })
	}
	c.publish(ctx, node)
	c.publishImages(ctx, &state)
	c.reportOutages(&state)
	c.reportSkew(&state)
	c.reportResolvConf(&state)
	if condition(node.Status.Conditions, v1.NodeReady).Status != v1.ConditionTrue {
		return notReadyPeriod
	}
	return updatePeriod
}

// compute makes the node of this moment, nil while nothing true can be said: before the API answered whether there is a
// node of an earlier process, and before the machine told about itself, unless it is down and there is such a node.
func (c *Controller) compute(s *machine.State) *v1.Node {
	now := c.opts.Clock.Now()
	c.pressures.observe(s.Facts, now)
	api, synced := c.view.get()
	var node *v1.Node
	switch {
	case !synced:
		return nil
	case s.Known():
		node = c.opts.Config.describe(s)
	case api != nil && (s.Link != nil || s.RuntimeDown != nil):
		node = c.opts.Config.inherit(api)
	default:
		return nil
	}
	var prior []v1.NodeCondition
	if api != nil {
		prior = api.Status.Conditions
	} else if c.sent != nil {
		prior = c.sent.Status.Conditions
	}
	node.Status.Conditions = conditions(s, node.Status.Capacity, c.opts.Engine(), &c.pressures, prior, now)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.registering {
		c.remembered = api
	}
	c.newest = node
	return node
}

// logWaiting says every few seconds what registration waits for.
func (c *Controller) logWaiting(s *machine.State) {
	now := c.opts.Clock.Now()
	if now.Sub(c.waitingAt) < waitingLogPeriod {
		return
	}
	c.waitingAt = now
	logger := c.logger.With("node", c.opts.Config.Name, "host", s.Target)
	switch _, synced := c.view.get(); {
	case !synced:
		logger.Info("Waiting for the API server before the node is registered")
	case s.LastError != nil:
		logger.Warn("Waiting for the host before the node is registered", "error", s.LastError)
	default:
		logger.Info("Waiting for the host before the node is registered")
	}
}
