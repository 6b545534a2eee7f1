// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Provide installs system packages by the names of Part.Needs; it does nothing for those present.
type Provide func(ctx context.Context, packages []string) error

// Build builds the parts that are not in the cache and links all of them into the folder Bin returns. It stops at the
// first part that fails; those built before stay. provide is called only if something has to be built.
func (b *Builder) Build(ctx context.Context, parts []Part, provide Provide) error {
	bin, err := b.Bin()
	if err != nil {
		return err
	}
	var missing []target
	for _, p := range parts {
		t, err := b.target(p)
		if err != nil {
			return err
		}
		if !t.built() {
			missing = append(missing, t)
			continue
		}
		if err := link(bin, t); err != nil {
			return err
		}
	}
	if len(missing) == 0 {
		return nil
	}

	var needs []string
	for _, t := range missing {
		needs = append(needs, t.Needs...)
	}
	slices.Sort(needs)
	if err := provide(ctx, slices.Compact(needs)); err != nil {
		return err
	}
	begin := time.Now()
	for i, t := range missing {
		if err := b.build(ctx, t, fmt.Sprintf("[%d/%d]", i+1, len(missing))); err != nil {
			return err
		}
		if err := link(bin, t); err != nil {
			return err
		}
	}
	fmt.Fprintf(b.out, "built %d parts in %s, in %s\n", len(missing), elapsed(begin), b.cache)
	return nil
}

func (b *Builder) build(ctx context.Context, t target, position string) error {
	unlock, err := b.lock(ctx, t)
	if err != nil {
		return err
	}
	defer unlock()
	if t.built() { // by the process that held the lock
		return nil
	}

	begin := time.Now()
	fmt.Fprintf(b.out, "%s %s %s\n", position, t.Name, t.version)
	folder := filepath.Dir(t.binary)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("building %s: %w", t.Name, err)
	}
	temporary := t.binary + ".part"
	// The go command refuses to write over what an interrupted run left half written.
	if err := os.RemoveAll(temporary); err != nil {
		return fmt.Errorf("building %s: %w", t.Name, err)
	}
	commands, err := commands(ctx, t, temporary)
	if err != nil {
		return fmt.Errorf("building %s: %w", t.Name, err)
	}
	for _, cmd := range commands {
		if err := b.run(ctx, t, cmd, position, begin); err != nil {
			return err
		}
	}
	if err := os.Rename(temporary, t.binary); err != nil {
		return fmt.Errorf("building %s: %w", t.Name, err)
	}
	fmt.Fprintf(b.out, "%s %s %s done in %s\n", position, t.Name, t.version, elapsed(begin))
	return nil
}

// lock takes the part's lock and says so when it has to wait.
func (b *Builder) lock(ctx context.Context, t target) (unlock func(), err error) {
	folder := filepath.Join(b.cache, "locks")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("locking %s: %w", t.Name, err)
	}
	f, err := os.OpenFile(filepath.Join(folder, t.Name), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", t.Name, err)
	}
	for said := false; ; said = true {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if err != syscall.EWOULDBLOCK {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", t.Name, err)
		}
		if !said {
			fmt.Fprintf(b.out, "%s: waiting for another build of it\n", t.Name)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// commands returns what makes the part's binary at output.
func commands(ctx context.Context, t target, output string) ([]*exec.Cmd, error) {
	if t.Package != "" {
		return goCommands(ctx, t, output)
	}

	root, err := sources(ctx, t)
	if err != nil {
		return nil, err
	}
	if t.File != "" {
		return []*exec.Cmd{exec.CommandContext(ctx, "cp", filepath.Join(root, t.File), output)}, nil
	}
	compile := exec.CommandContext(ctx, "gcc", append([]string{"-o", output}, cArguments(t.Part, t.version)...)...)
	compile.Dir = root
	return []*exec.Cmd{compile}, nil
}

// sources downloads the part's module and returns the folder it is in.
func sources(ctx context.Context, t target) (string, error) {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", t.Module)
	download.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	download.Dir = t.folder
	out, err := download.Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w\n%s", t.Module, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		return "", fmt.Errorf("finding the sources of %s: %w", t.Module, err)
	}
	if module.Dir == "" {
		return "", fmt.Errorf("finding the sources of %s: the go command names no folder:\n%s", t.Module, out)
	}
	return module.Dir, nil
}

// goCommands returns what makes a Go program or a test binary.
func goCommands(ctx context.Context, t target, output string) ([]*exec.Cmd, error) {
	command := func(args ...string) *exec.Cmd {
		cgo := "0"
		if t.Cgo {
			cgo = "1"
		}
		cmd := exec.CommandContext(ctx, "go", args...)
		// GOWORK and GOFLAGS of the caller must not change which versions are built.
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED="+cgo)
		cmd.Dir = t.folder
		return cmd
	}
	flags := goArguments(t.Part, t.version)
	// With -v the go command names each package it compiles: that is the progress shown.
	build := append([]string{"build", "-v"}, flags...)
	if !t.Test {
		return []*exec.Cmd{command(append(build, "-o", output, t.Package)...)}, nil
	}
	// "go test -c" names no packages, so what the tests import is compiled first. The results of that are in Go's own cache.
	const imports = `{{range .TestImports}}{{.}}{{"\n"}}{{end}}{{range .XTestImports}}{{.}}{{"\n"}}{{end}}`
	list, err := command("list", "-f", imports, t.Package).Output()
	if err != nil {
		return nil, fmt.Errorf("listing what the tests of %s import: %w", t.Package, err)
	}
	return []*exec.Cmd{
		command(append(append(build, "-o", os.DevNull), strings.Fields(string(list))...)...),
		command(append(append([]string{"test", "-c"}, flags...), "-o", output, t.Package)...),
	}, nil
}

// run runs one command of a build. Its output goes to the part's log; if it fails, the error ends with the log's last lines.
func (b *Builder) run(ctx context.Context, t target, cmd *exec.Cmd, position string, begin time.Time) error {
	folder := filepath.Join(b.cache, "logs")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("building %s: %w", t.Name, err)
	}
	logName := filepath.Join(folder, t.Name+".log")
	log, err := os.Create(logName)
	if err != nil {
		return fmt.Errorf("building %s: %w", t.Name, err)
	}
	defer log.Close()

	shown := newProgress(b.out, position+" "+t.Name, begin)
	output := io.MultiWriter(log, shown)
	cmd.Stdout, cmd.Stderr = output, output
	// An interrupt lets the go command store what it has compiled so far and remove its temporary files.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	err = cmd.Run()
	shown.stop()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("building %s: %w", t.Name, context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("building %s %s: %w\n%s\nwhole log: %s", t.Name, t.version, err, lastLines(logName, 20), logName)
	}
	return nil
}

func lastLines(name string, n int) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

func elapsed(begin time.Time) time.Duration {
	return time.Since(begin).Round(100 * time.Millisecond)
}
