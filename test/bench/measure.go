// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// plan says what one round measures.
type plan struct {
	singles int // pods started and removed one after the other
	bursts  []int
	idle    time.Duration
}

// settle is a pause in which what a burst left is cleaned up, before something else is measured.
const settle = 5 * time.Second

// podTimeout bounds one step of a burst.
const podTimeout = 5 * time.Minute

// sample adds one round's figure.
func (s samples) sample(metric string, value float64) { s[metric] = append(s[metric], value) }

// samples are figures by metric, one or more a round: milliseconds, mCPU, MiB or plain numbers, as the metric's name says.
type samples map[string][]float64

// round measures a target once.
func round(ctx context.Context, t target, p plan, id string, into samples) error {
	if err := singles(ctx, t, p.singles, id, into); err != nil {
		return err
	}
	for i, n := range p.bursts {
		// The largest burst stays for a while, to be idle with.
		last := i == len(p.bursts)-1
		if err := burst(ctx, t, n, p.idle, last, fmt.Sprintf("%s-b%d", id, n), into); err != nil {
			return err
		}
	}
	return nil
}

func singles(ctx context.Context, t target, n int, id string, into samples) error {
	for i := range n {
		names := []string{fmt.Sprintf("%s-s%d", id, i)}
		started, err := t.start(ctx, names)
		if err != nil {
			return fmt.Errorf("starting one pod: %w", err)
		}
		into.sample("1 pod: start, ms", milliseconds(started[0]))
		restarted, err := t.crash(ctx, names[0])
		switch {
		case err == nil:
			into.sample("1 pod: crash to restarted, ms", milliseconds(restarted))
		case !errors.Is(err, errNoSuch):
			return fmt.Errorf("crashing one pod: %w", err)
		}
		removed, err := t.remove(ctx, names)
		if err != nil {
			return fmt.Errorf("removing one pod: %w", err)
		}
		into.sample("1 pod: delete, ms", milliseconds(removed[0]))
	}
	return nil
}

func burst(ctx context.Context, t target, n int, idle time.Duration, measureIdle bool, id string, into samples) error {
	ctx, cancel := context.WithTimeout(ctx, podTimeout+idle)
	defer cancel()
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", id, i)
	}
	before, err := t.usage()
	hasUsage := !errors.Is(err, errNoSuch)
	if hasUsage && err != nil {
		return err
	}
	what := fmt.Sprintf("%d pods: ", n)
	started, err := t.start(ctx, names)
	if err != nil {
		return fmt.Errorf("starting %d pods: %w", n, err)
	}
	into.sample(what+"start, median, ms", milliseconds(quantile(started, 0.5)))
	into.sample(what+"start, last, ms", milliseconds(quantile(started, 1)))

	var idleCPU time.Duration
	if hasUsage && measureIdle {
		if idleCPU, err = idleWith(ctx, t, what, idle, into); err != nil {
			return err
		}
	}
	removed, err := t.remove(ctx, names)
	if err != nil {
		return fmt.Errorf("removing %d pods: %w", n, err)
	}
	into.sample(what+"delete, median, ms", milliseconds(quantile(removed, 0.5)))
	into.sample(what+"delete, last, ms", milliseconds(quantile(removed, 1)))
	if err := pause(ctx, settle); err != nil || !hasUsage {
		return err
	}
	after, err := t.usage()
	if err != nil {
		return err
	}
	into.sample(what+"CPU per pod life, ms", milliseconds(after.cpu-before.cpu-idleCPU)/float64(n))
	into.sample(what+"API writes per pod life", float64(after.writes-before.writes)/float64(n))
	into.sample(what+"API events per pod life", float64(after.events-before.events)/float64(n))
	return nil
}

// idleWith measures a target that has nothing to do and returns the processor time of that.
func idleWith(ctx context.Context, t target, what string, idle time.Duration, into samples) (time.Duration, error) {
	if err := pause(ctx, settle); err != nil {
		return 0, err
	}
	before, err := t.usage()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := pause(ctx, idle); err != nil {
		return 0, err
	}
	after, err := t.usage()
	if err != nil {
		return 0, err
	}
	into.sample(what+"idle, mCPU", 1000*float64(after.cpu-before.cpu)/float64(time.Since(begin)))
	into.sample(what+"memory, MiB", float64(after.memory)/(1<<20))
	return after.cpu - before.cpu, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
