// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
)

type options struct {
	kinds  []string
	shape  shape
	calls  int
	pause  time.Duration
	limit  int64
	settle time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "links: %v\n", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("links", flag.ContinueOnError)
	kinds := flags.String("kinds", "tls,reverse", "kinds of links")
	megabits := flags.Float64("rate", 100, "rate of the link in Mbit/s, 0 for no limit")
	flags.DurationVar(&o.shape.delay, "delay", 10*time.Millisecond, "delay of the link, one way")
	flags.DurationVar(&o.shape.buffer, "buffer", 5*time.Millisecond, "what the router on the way keeps back, as time at the rate")
	flags.IntVar(&o.calls, "calls", 300, "number of calls of each sort under each load")
	flags.DurationVar(&o.pause, "pause", 10*time.Millisecond, "pause between calls")
	flags.DurationVar(&o.settle, "settle", 3*time.Second, "how long a load runs before calls are measured")
	gigabytes := flags.Float64("gigabytes", 10, "most that a load moves, if the calls do not end before")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.kinds = strings.Split(*kinds, ",")
	o.shape.rate, o.limit = *megabits*1e6/8, int64(*gigabytes*1e9)
	if o.calls < 1 {
		return nil, fmt.Errorf("-calls %d: give at least 1", o.calls)
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-8s %-28s %8s   %-32s %s\n", "link", "beside it", "Mbit/s", "Version (CRI), p50 and p99 in ms", "ListPods (host)")
	for _, kind := range o.kinds {
		if err := o.measureKind(ctx, kind, out); err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
	}
	return nil
}

// measureKind measures all loads on one link, one after the other.
func (o *options) measureKind(ctx context.Context, kind string, out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "tombolo-links-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := ends(ctx, &group, kind, o.shape, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var base [2]float64
	for i, l := range loads {
		took, rate, err := o.measure(ctx, conn, l)
		if err != nil {
			return fmt.Errorf("%s: %w", l.name, err)
		}
		fmt.Fprintf(out, "%-8s %-28s %8.1f", kind, l.name, rate*8/1e6)
		for j, each := range took {
			half, most := quantile(each, 0.5), quantile(each, 0.99)
			if i == 0 {
				base[j] = most
			}
			fmt.Fprintf(out, "   %8.1f %8.1f  x%-10.2f", half, most, most/base[j])
		}
		fmt.Fprintln(out)
	}
	return nil
}

// measure returns how long each call took beside a load, in milliseconds, by the sort of call, and how many bytes per second the load had.
func (o *options) measure(ctx context.Context, conn *hostconn.Connection, l load) (took [2][]float64, rate float64, err error) {
	runtime := cri.NewClient(conn.CRI, cri.ClientOptions{})
	calls := [2]func(context.Context) error{
		func(ctx context.Context) error { _, err := runtime.Version(ctx); return err },
		func(ctx context.Context) error { _, err := conn.Host.ListPods(ctx); return err },
	}
	for begin := time.Now(); ; { // the connection is made
		if err = calls[0](ctx); err == nil || time.Since(begin) > 10*time.Second {
			break
		}
		time.Sleep(o.pause)
	}
	if err != nil {
		return took, 0, err
	}
	loading, cancel := context.WithCancel(ctx)
	var gone atomic.Int64
	ended := make(chan error, 1)
	go func() { ended <- l.run(loading, conn.Host, o.limit, &gone) }()
	defer func() { cancel(); <-ended }()
	time.Sleep(o.settle)
	begin, before := time.Now(), gone.Load()
	for range o.calls {
		for i, call := range calls {
			sent := time.Now()
			if err := call(ctx); err != nil {
				return took, 0, err
			}
			took[i] = append(took[i], float64(time.Since(sent))/float64(time.Millisecond))
			time.Sleep(o.pause)
		}
		if gone.Load() >= o.limit {
			break
		}
	}
	select {
	case err := <-ended:
		ended <- nil
		if err != nil && gone.Load() < o.limit {
			return took, 0, fmt.Errorf("it ended: %w", err)
		}
	default:
	}
	return took, float64(gone.Load()-before) / time.Since(begin).Seconds(), nil
}

// quantile returns the value of which the share q is not larger.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
