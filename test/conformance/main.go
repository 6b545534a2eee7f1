// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/tombolo-dev/tombolo/test/nodes"
)

// runner is what the flags say.
type runner struct {
	out       io.Writer
	bin       string // folder of the parts
	output    string
	tombolo   string
	processes int
	refresh   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	r := &runner{out: out}
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	quick := flags.Bool("quick", false, "run the tests of quick.txt with Tombolo only, and fail if one of them does not pass")
	group := flags.String("group", "node", "which of Kubernetes' groups of tests: node, storage or all of both")
	slow := flags.Bool("slow", false, "run the tests marked Slow, too")
	focus := flags.String("focus", "", "a regular expression: run only tests whose full name it matches")
	link := flags.String("link", "tls", "how tombolo node reaches the host: tls or unix")
	flags.BoolVar(&r.refresh, "refresh", false, "run with the kubelet even if there are results of it in the cache")
	flags.IntVar(&r.processes, "procs", 6, "number of tests that run at once")
	flags.StringVar(&r.tombolo, "tombolo", "bin/tombolo", "the tombolo binary")
	flags.StringVar(&r.output, "output", filepath.Join(os.TempDir(), "tombolo-conformance"), "folder for reports and logs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	kind, ok := map[string]nodes.Kind{"tls": nodes.TomboloTLS, "unix": nodes.TomboloUnix}[*link]
	if !ok {
		return fmt.Errorf("-link %q: say tls or unix", *link)
	}
	if groups[*group] == "" {
		return fmt.Errorf("-group %q: say node, storage or all", *group)
	}
	if err := r.resolve(); err != nil {
		return err
	}
	if *quick {
		return r.runQuick(ctx, kind)
	}
	return r.runBoth(ctx, kind, nodeSelection(*group, *slow, *focus))
}

// resolve makes paths absolute and finds the parts.
func (r *runner) resolve() error {
	for _, path := range []*string{&r.tombolo, &r.output} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = absolute
	}
	if _, err := os.Stat(r.tombolo); err != nil {
		return fmt.Errorf("%w: run make build", err)
	}
	program, err := exec.LookPath("e2e.test")
	if err != nil {
		return fmt.Errorf("%w: run it through make conformance, which builds it", err)
	}
	r.bin = filepath.Dir(program)
	return nil
}

// runQuick runs the tests that must pass at any time.
func (r *runner) runQuick(ctx context.Context, kind nodes.Kind) error {
	s := quickSelection(quickList)
	results, err := r.run(ctx, kind, s)
	if err != nil {
		return err
	}
	fmt.Fprintln(r.out, "the slowest:")
	for _, name := range results.slowest(5) {
		fmt.Fprintf(r.out, "  %7s %s\n", seconds(results[name].Took), name)
	}
	why := missed(s.must, results)
	if len(why) == 0 {
		return nil
	}
	fmt.Fprintln(r.out, "\nTests of quick.txt that did not pass:")
	for _, name := range slices.Sorted(maps.Keys(why)) {
		fmt.Fprintf(r.out, "  %s\n    %s\n", name, why[name])
	}
	return fmt.Errorf("%d of %d tests that must pass did not; details are in %s", len(why), len(s.must), r.output)
}

// runBoth compares Tombolo with the kubelet.
func (r *runner) runBoth(ctx context.Context, kind nodes.Kind, s selection) error {
	kubelet, err := r.kubeletResults(ctx, s)
	if err != nil {
		return err
	}
	tombolo, err := r.run(ctx, kind, s)
	if err != nil {
		return err
	}
	for name, results := range map[string]Results{"kubelet": kubelet, "tombolo": tombolo} {
		if err := writeResults(filepath.Join(r.output, name+".json"), results); err != nil {
			return err
		}
	}
	d := compare(kubelet, tombolo)
	d.print(r.out, kubelet, tombolo)
	if n := d.regressions(); n > 0 {
		return fmt.Errorf("%d tests pass with the kubelet and not with Tombolo, and no refused field explains it; details are in %s", n, r.output)
	}
	return nil
}
