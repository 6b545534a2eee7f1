// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command parts builds the real parts that tests, demos and linters run, at the versions pinned under tools/parts.
//
// Run it from the repository as: go run -C tools ./cmd/parts COMMAND
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tombolo-dev/tombolo/tools/internal/builder"
	"github.com/tombolo-dev/tombolo/tools/internal/debian"
)

const usage = `usage: parts COMMAND

  build NAME...   build parts or sets ("all" for everything) that the cache does not have
  path NAME       print the path of a built part
  bin             print the folder with links to the built parts, to put on a PATH
  system NAME...  install system packages (Debian names) that are missing
  list            print sets and parts

The cache folder is $TOMBOLO_CACHE, else tombolo in $XDG_CACHE_HOME or ~/.cache.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "parts:", err)
		os.Exit(1)
	}
}

// run executes one command. Answers go to stdout, progress to stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return fmt.Errorf("no command given")
	}
	b, err := newBuilder(stderr)
	if err != nil {
		return err
	}
	provide := func(ctx context.Context, packages []string) error { return debian.Ensure(ctx, packages, stderr) }

	switch command, names := args[0], args[1:]; {
	case command == "build" && len(names) > 0:
		parts, needs, err := builder.Select(names)
		if err != nil {
			return err
		}
		if err := provide(ctx, needs); err != nil {
			return err
		}
		return b.Build(ctx, parts, provide)
	case command == "path" && len(names) == 1:
		path, err := b.Path(names[0])
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, path)
		return nil
	case command == "bin" && len(names) == 0:
		bin, err := b.Bin()
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, bin)
		return nil
	case command == "system" && len(names) > 0:
		return provide(ctx, names)
	case command == "list" && len(names) == 0:
		list(stdout)
		return nil
	default:
		fmt.Fprint(stderr, usage)
		return fmt.Errorf("%q is not a command with its arguments", strings.Join(args, " "))
	}
}

// newBuilder expects to be run in the folder tools, where "go run -C tools" puts it.
func newBuilder(progress io.Writer) (*builder.Builder, error) {
	pins, err := filepath.Abs("parts")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(pins, "kubernetes", "go.mod")); err != nil {
		return nil, fmt.Errorf("no pins in %s: run it as go run -C tools ./cmd/parts", pins)
	}
	cache, err := builder.DefaultCache()
	if err != nil {
		return nil, err
	}
	return builder.New(pins, cache, progress), nil
}

func list(out io.Writer) {
	for _, s := range builder.Sets() {
		fmt.Fprintf(out, "%-12s %s: %s\n", s.Name, s.Why, strings.Join(s.Parts, " "))
	}
}
