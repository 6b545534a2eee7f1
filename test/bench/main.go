// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tombolo-dev/tombolo/test/nodes"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

// targetCRI is the name of the target that is no node; the others are named as kinds of package nodes.
const targetCRI = "cri"

type options struct {
	plan    plan
	rounds  int
	targets []string
	tombolo string
	output  string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func parseFlags(args []string) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 3, "number of times everything is measured, all targets in turn each time")
	flags.IntVar(&o.plan.singles, "singles", 10, "number of pods started and removed one by one in a round")
	flags.DurationVar(&o.plan.idle, "idle", 30*time.Second, "time to be idle with the pods of the last burst")
	bursts := flags.String("bursts", "30,100", "numbers of pods started at once, at most 110")
	all := strings.Join([]string{targetCRI, string(nodes.Kubelet), string(nodes.TomboloUnix), string(nodes.TomboloTLS)}, ",")
	targets := flags.String("targets", all, "what to measure; figures are compared with the first")
	flags.StringVar(&o.tombolo, "tombolo", "bin/tombolo", "the tombolo binary")
	flags.StringVar(&o.output, "output", filepath.Join(os.TempDir(), "tombolo-bench.json"), "file for all samples")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	o.targets = strings.Split(*targets, ",")
	known := strings.Split(all, ",")
	for i, name := range o.targets {
		if !slices.Contains(known, name) || slices.Contains(o.targets[:i], name) {
			return nil, fmt.Errorf("-targets %q: name some of %s, each once", *targets, all)
		}
	}
	for text := range strings.SplitSeq(*bursts, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 110 {
			return nil, fmt.Errorf("-bursts %q: give numbers from 1 to 110 separated by commas", *bursts)
		}
		o.plan.bursts = append(o.plan.bursts, n)
	}
	if o.rounds < 1 {
		return nil, fmt.Errorf("-rounds %d: give at least 1", o.rounds)
	}
	var err error
	o.tombolo, err = filepath.Abs(o.tombolo)
	return o, err
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "tombolo-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	audit, err := newAuditLog(dir)
	if err != nil {
		return err
	}
	cluster, err := testbed.Start(ctx, testbed.Options{Log: out, APIServerFlags: audit.flags()})
	if err != nil {
		return err
	}
	defer func() {
		stopped := cluster.Stop(context.WithoutCancel(ctx))
		if err != nil {
			err = errors.Join(fmt.Errorf("%w; logs are in %s", err, cluster.LogDir()), stopped)
			return
		}
		err = errors.Join(stopped, os.RemoveAll(cluster.StateDir()))
	}()
	targets, err := o.start(ctx, cluster, audit)
	if err != nil {
		return err
	}
	f, measured := o.measure(ctx, targets, out)
	return errors.Join(measured, o.report(f, out))
}

// report writes what was measured, also if it is not all that was to be.
func (o *options) report(f *figures, out io.Writer) error {
	f.order()
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.output, append(data, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintln(out)
	if err := f.print(out); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nall samples: %s\n", o.output)
	return nil
}

// start makes a host for each target, and a node of it if it is one.
func (o *options) start(ctx context.Context, cluster *testbed.Cluster, audit *auditLog) ([]target, error) {
	var targets []target
	for _, name := range o.targets {
		host, err := cluster.AddHost(ctx, name, testbed.HostOptions{})
		if err != nil {
			return nil, err
		}
		if name == targetCRI {
			bare, err := newBareCRI(host)
			if err != nil {
				return nil, err
			}
			targets = append(targets, bare)
			continue
		}
		n, err := nodes.Start(ctx, cluster, host, nodes.Kind(name), o.tombolo)
		if err != nil {
			return nil, err
		}
		targets = append(targets, &node{Node: n, client: cluster.Client(), audit: audit})
	}
	return targets, nil
}

// measure runs all rounds; what was measured before an error is returned with it. The first pod of each target is not
// counted: it makes what is made once.
func (o *options) measure(ctx context.Context, targets []target, out io.Writer) (*figures, error) {
	var names []string
	for _, t := range targets {
		names = append(names, t.name())
	}
	f := newFigures(names)
	for _, t := range targets {
		if err := singles(ctx, t, 1, "warm", samples{}); err != nil {
			return f, fmt.Errorf("%s: %w", t.name(), err)
		}
	}
	for i := range o.rounds {
		for _, t := range targets {
			begin := time.Now()
			if err := round(ctx, t, o.plan, fmt.Sprintf("r%d", i), f.Samples[t.name()]); err != nil {
				return f, fmt.Errorf("round %d of %s: %w", i+1, t.name(), err)
			}
			fmt.Fprintf(out, "round %d of %d, %s, %.0f s\n", i+1, o.rounds, t.name(), time.Since(begin).Seconds())
		}
	}
	return f, nil
}
