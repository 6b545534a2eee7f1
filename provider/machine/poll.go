// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// answer is what one poll brought.
type answer struct {
	sent, received time.Time

	facts    *host.Facts
	factsErr error
	// factsAt is the middle between the moments at which the facts were asked for and received.
	factsAt time.Time

	version    *runtimeapi.VersionResponse
	status     *runtimeapi.StatusResponse
	runtimeErr error

	images []*runtimeapi.Image
	// imagesRead says that images is an answer.
	imagesRead bool
}

// poll asks once, takes the answer into the state and tells the reader.
func (m *Monitor) poll(ctx context.Context) {
	a := m.ask(ctx, m.imagesAt.IsZero() || m.opts.Clock.Since(m.imagesAt) >= imagesPeriod)
	if ctx.Err() != nil {
		return // the end of this process says nothing of the machine
	}
	if a.imagesRead {
		m.imagesAt = a.sent
	}
	m.link = m.link.next(a.sent, a.received, a.factsErr)
	if a.factsErr == nil { // else the runtime had no chance to answer
		m.runtime = m.runtime.next(a.sent, a.received, a.runtimeErr)
	}
	before, after := m.take(a)
	m.report(before, after)
	select {
	case m.changes <- struct{}{}:
	default:
	}
}

// ask sends all requests of one poll at once and waits for their ends. They share one deadline.
func (m *Monitor) ask(ctx context.Context, images bool) answer {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	clk := m.opts.Clock
	a := answer{sent: clk.Now()}
	var versionErr, statusErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		a.facts, a.factsErr = m.opts.Facts.Facts(ctx)
		a.factsAt = a.sent.Add(clk.Since(a.sent) / 2)
	})
	wg.Go(func() { a.version, versionErr = m.opts.Runtime.Version(ctx) })
	wg.Go(func() { a.status, statusErr = m.opts.Runtime.Status(ctx) })
	if images {
		wg.Go(func() {
			list, err := m.opts.Runtime.ListImages(ctx)
			a.images, a.imagesRead = list, err == nil
		})
	}
	wg.Wait()
	a.received = clk.Now()
	if errors.Is(a.factsErr, context.DeadlineExceeded) {
		a.factsErr = fmt.Errorf("the host did not answer within %s", pollTimeout) // which becomes the reason of an outage
	}
	a.runtimeErr = cmp.Or(statusErr, versionErr)
	return a
}

// take makes the answer part of the state and returns the states before and after.
func (m *Monitor) take(a answer) (before, after State) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.state
	s := &m.state
	if a.factsErr == nil {
		s.Facts = a.facts
		if !a.facts.Clock.IsZero() {
			s.ClockOffset = a.facts.Clock.Sub(a.factsAt)
		}
	}
	if a.runtimeErr == nil {
		s.Version, s.Runtime = a.version, a.status
	}
	if a.imagesRead {
		s.Images = a.images
	}
	if s.Link = m.link.outage(); s.Link != nil {
		s.Link = new(m.told(*s.Link))
	}
	s.RuntimeDown = m.runtime.outage()
	s.LastError = cmp.Or(a.factsErr, a.runtimeErr)
	if a.factsErr != nil {
		s.LastError = m.told(Outage{Err: a.factsErr}).Err
	}
	return before, m.state
}

// told is an outage with the link's own reason, if it knows of one, and since the earlier of the two times: the link
// sees a broken connection before a request, and a request sees a silent host before the link.
func (m *Monitor) told(o Outage) Outage {
	if m.opts.Link == nil {
		return o
	}
	since, err := m.opts.Link()
	if err == nil {
		return o
	}
	if o.Since.Before(since) {
		since = o.Since
	}
	return Outage{Since: since, Err: err}
}

// report logs and counts what changed with a poll.
func (m *Monitor) report(before, after State) {
	m.metrics.observe(after)
	switch {
	case before.Link == nil && after.Link != nil:
		m.opts.Logger.Warn("Host does not answer", "error", after.LinkError())
	case before.Link != nil && after.Link == nil:
		m.opts.Logger.Info("Host answers again", "target", after.Target, "down_since", before.Link.Since)
	}
	switch {
	case before.RuntimeDown == nil && after.RuntimeDown != nil:
		m.opts.Logger.Warn("Container runtime does not answer", "error", after.RuntimeDown.Err)
	case before.RuntimeDown != nil && after.RuntimeDown == nil:
		m.opts.Logger.Info("Container runtime answers again", "down_since", before.RuntimeDown.Since)
	}
}
