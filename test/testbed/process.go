// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// A Process is a program that runs until it is stopped, with its output in a log file.
type Process struct {
	record  recorded
	logFile string
	store   *store

	done chan struct{}
	err  error // valid after done is closed
}

// Name is the name the process was started under.
func (p *Process) Name() string { return p.record.Name }

// PID is the process id of the program itself, also for programs on a host.
func (p *Process) PID() int { return p.record.PID }

// LogFile is the file with everything the process wrote.
func (p *Process) LogFile() string { return p.logFile }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended, as [exec.Cmd.Wait] says it; nil before Done.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Signal sends a signal to the process alone. A process that has ended is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	if !p.record.alive() {
		return nil
	}
	if err := syscall.Kill(p.PID(), sig); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("sending %v to %s: %w", sig, p.Name(), err)
	}
	return nil
}

// Kill sends SIGKILL to the process and its group and waits for the process to be gone.
func (p *Process) Kill() error {
	if err := p.record.kill(); err != nil {
		return err
	}
	<-p.done
	return p.store.removeProcess(p.record)
}

// Stop sends SIGTERM to the process and its group, after 5 s or at the end of the context SIGKILL, and waits for the
// process to be gone.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.record.stop(ctx); err != nil {
		return err
	}
	<-p.done
	return p.store.removeProcess(p.record)
}

// LogTail returns the last n lines of the log.
func (p *Process) LogTail(n int) string { return tail(p.logFile, n) }

// failure describes what went wrong with a process so that nobody has to look for its log.
func (p *Process) failure(what string) error {
	return fmt.Errorf("%s %s, log: %s, last lines:\n%s", p.Name(), what, p.logFile, p.LogTail(15))
}

func tail(name string, n int) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

// Command returns a command that runs on this side, outside all hosts, with the programs of the testbed first on its PATH.
// It carries the testbed's mark, so that [Clean] finds it.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	// exec.Command looks in the PATH of this process, not in that of the command.
	if inBin := filepath.Join(c.Bin(), name); filepath.Base(name) == name && exists(inBin) {
		name = inBin
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), markVariable+"="+c.id, "PATH="+c.Bin()+":"+os.Getenv("PATH"))
	cmd.SysProcAttr = c.processAttributes()
	return cmd
}

// processAttributes put a process in a group of its own. Unless the testbed is to outlive this process, the kernel kills the
// process when this one ends, however it ends. To be exact, when the thread that started it ends; Go ends a thread early
// only under a goroutine that has locked it, and nothing here does.
func (c *Cluster) processAttributes() *syscall.SysProcAttr {
	if c.opts.Detach {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// Run starts a command made by [Cluster.Command] or [Host.Command] that runs until it is stopped. Its output is appended to
// <LogDir>/<name>.log. Stop of the cluster stops it. A name may be used again when the earlier process has ended.
func (c *Cluster) Run(name string, cmd *exec.Cmd) (*Process, error) { return c.run("", name, cmd) }

// run is Run for a process on a host, or on this side if host is empty.
func (c *Cluster) run(host, name string, cmd *exec.Cmd) (*Process, error) {
	logFile := filepath.Join(c.LogDir(), name+".log")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close() // the process has its own copy
	fmt.Fprintf(log, "# %s\n", strings.Join(cmd.Args, " "))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	// The process cannot be gone from /proc before Wait is called.
	r, err := record(name, cmd.Process.Pid)
	r.Host = host
	if err == nil {
		err = c.store.addProcess(r)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, err
	}
	p := &Process{record: r, logFile: logFile, store: c.store, done: make(chan struct{})}
	go func() { // ends with the process
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}
