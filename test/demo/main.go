// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

//go:embed pod.yaml
var podManifest []byte

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	state := flags.String("state-dir", filepath.Join(os.TempDir(), "tombolo-demo"), "folder for everything the demo writes")
	binary := flags.String("tombolo", "bin/tombolo", "the tombolo binary")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch flags.Arg(0) {
	case "up":
		return up(ctx, *state, *binary)
	case "down":
		return down(ctx, *state)
	default:
		return fmt.Errorf("say up or down, not %q", flags.Arg(0))
	}
}

// down removes a demo, also one whose process died in the middle.
func down(ctx context.Context, state string) error {
	begin := time.Now()
	if err := testbed.Clean(ctx, state, os.Stdout); err != nil {
		return err
	}
	if err := os.RemoveAll(state); err != nil {
		return err
	}
	say(begin, "nothing of the demo is left")
	return nil
}

// up starts everything anew and shows it. When a step fails the cluster stays for a look; demo-down removes it.
func up(ctx context.Context, state, binary string) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	if err := down(ctx, state); err != nil {
		return fmt.Errorf("removing an earlier demo: %w", err)
	}
	d, err := start(ctx, state, binary)
	if err != nil {
		return errors.Join(err, fmt.Errorf("logs are in %s; 'make demo-down' removes the rest", filepath.Join(state, "logs")))
	}
	if err := d.show(ctx); err != nil {
		return errors.Join(err, fmt.Errorf("logs are in %s; 'make demo-down' removes the rest", d.cluster.LogDir()))
	}
	d.handOver()
	return nil
}

func say(begin time.Time, format string, args ...any) {
	fmt.Printf("demo: %s (%.1f s)\n", fmt.Sprintf(format, args...), time.Since(begin).Seconds())
}
