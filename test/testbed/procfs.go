// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// markVariable is the environment variable whose value is the testbed's identifier. Children inherit it, so it finds
// processes whose parent is gone.
const markVariable = "TOMBOLO_TESTBED"

// pollInterval is how often something that has no event is looked at.
const pollInterval = 20 * time.Millisecond

// recorded names a process beyond doubt: a process id is used again, but not with the same start time.
type recorded struct {
	Name  string `json:"name"`
	Host  string `json:"host,omitempty"` // empty for this side
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

func record(name string, pid int) (recorded, error) {
	_, start, err := readStat(pid)
	if err != nil {
		return recorded{}, fmt.Errorf("recording process %s: %w", name, err)
	}
	return recorded{Name: name, PID: pid, Start: start}, nil
}

// alive tells whether the process runs. A zombie does not.
func (r recorded) alive() bool {
	status, start, err := readStat(r.PID)
	return err == nil && start == r.Start && status != 'Z' && status != 'X'
}

// signal signals the process and the rest of its group; a process that is gone is no error.
func (r recorded) signal(sig syscall.Signal) error {
	if !r.alive() {
		return nil
	}
	if err := syscall.Kill(-r.PID, sig); err != nil && err != syscall.ESRCH {
		return fmt.Errorf("sending %v to %s (process %d): %w", sig, r.Name, r.PID, err)
	}
	return nil
}

// stopGrace is how long a process has after SIGTERM. An API server that outlives etcd hangs in its shutdown, so waiting
// longer does not help.
const stopGrace = 5 * time.Second

// stop sends SIGTERM, and SIGKILL after stopGrace or when the context ends. It returns when the process is gone.
func (r recorded) stop(ctx context.Context) error {
	if err := r.signal(syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, stopGrace)
	defer cancel()
	if poll(ctx, func() bool { return !r.alive() }) == nil {
		return nil
	}
	return r.kill()
}

// kill sends SIGKILL and returns when the process is gone.
func (r recorded) kill() error {
	if err := r.signal(syscall.SIGKILL); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := poll(ctx, func() bool { return !r.alive() }); err != nil {
		return fmt.Errorf("process %d (%s) is still there 10 s after SIGKILL", r.PID, r.Name)
	}
	return nil
}

// readStat returns state and start time of a process from /proc/<pid>/stat.
func readStat(pid int) (status byte, start uint64, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(data)
}

// parseStat parses the content of /proc/<pid>/stat. The second field is the command in parentheses and may hold anything,
// parentheses too; the fields after the last one are counted.
func parseStat(data []byte) (status byte, start uint64, err error) {
	_, rest, found := bytes.Cut(data[max(0, bytes.LastIndexByte(data, ')')):], []byte(")"))
	fields := bytes.Fields(rest)
	const statusField, startField = 0, 19 // fields 3 and 22 of proc_pid_stat(5)
	if !found || len(fields) <= startField || len(fields[statusField]) != 1 {
		return 0, 0, fmt.Errorf("malformed process status %q", data)
	}
	start, err = strconv.ParseUint(string(fields[startField]), 10, 64)
	return fields[statusField][0], start, err
}

// markedProcesses returns the processes that carry the mark of a testbed, but never this one.
func markedProcesses(id string) ([]recorded, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	mark := []byte(markVariable + "=" + id)
	var found []recorded
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		environment, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil { // gone meanwhile
			continue
		}
		if !slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(v []byte) bool { return bytes.Equal(v, mark) }) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "comm")) // only for messages
		if r, err := record(strings.TrimSpace(string(command)), pid); err == nil {
			found = append(found, r)
		}
	}
	return found, nil
}

// killMarked kills every process with the testbed's mark until none is left; new ones may appear while it is at it.
func killMarked(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var left []recorded
	err := poll(ctx, func() bool {
		found, err := markedProcesses(id)
		if err != nil {
			return false
		}
		left = slices.DeleteFunc(found, func(r recorded) bool { return !r.alive() })
		for _, r := range left {
			// Not the group: a stray may have joined one that is not ours.
			_ = syscall.Kill(r.PID, syscall.SIGKILL)
		}
		return len(left) == 0
	})
	if err != nil {
		return fmt.Errorf("killing processes of testbed %s: %v are left: %w", id, left, err)
	}
	return nil
}

// poll calls done until it returns true or the context ends.
func poll(ctx context.Context, done func() bool) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if done() {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}
