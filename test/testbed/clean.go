// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// tempPrefix starts the names of state folders in the folder for temporary files.
const tempPrefix = "tombolo-testbed-"

// Clean removes a testbed whose process is gone, whatever state it was left in, with its state folder. It is no error if
// the folder holds no testbed. Do not call it for a testbed another process is still using.
func Clean(ctx context.Context, stateDir string, log io.Writer) error {
	c, err := Open(stateDir)
	if isNotState(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if log != nil {
		c.log = log
	}
	if err := c.Stop(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(c.StateDir()); err != nil {
		return fmt.Errorf("removing state folder: %w", err)
	}
	return nil
}

// Abandoned returns the state folders, among the temporary files, of testbeds that nobody uses any more. In one that is
// used etcd runs: it is the first to be started and the last to be stopped, and ends with the process that started it.
func Abandoned() ([]string, error) {
	matches, err := filepath.Glob(filepath.Join(os.TempDir(), tempPrefix+"*", stateFile))
	if err != nil {
		return nil, fmt.Errorf("looking for abandoned testbeds: %w", err)
	}
	var abandoned []string
	for _, m := range matches {
		st, err := openStore(filepath.Dir(m))
		if err != nil {
			return nil, err
		}
		alive := func(p recorded) bool { return p.Name == "etcd" && p.alive() }
		if !slices.ContainsFunc(st.get().Processes, alive) {
			abandoned = append(abandoned, filepath.Dir(m))
		}
	}
	return abandoned, nil
}

// CleanOrphans removes what is left of testbeds that have hosts but neither a running etcd nor, any more, a state folder that
// [Abandoned] would find.
func CleanOrphans(ctx context.Context, log io.Writer) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	ids := map[string]bool{}
	for _, h := range all {
		groups, err := filepath.Glob(filepath.Join(h.Mount, runCgroup("*")))
		if err != nil {
			return fmt.Errorf("looking for orphaned testbeds: %w", err)
		}
		for _, g := range groups {
			ids[strings.TrimPrefix(filepath.Base(g), runCgroup(""))] = true
		}
	}
	var failed []error
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		processes, err := markedProcesses(id)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(processes, func(p recorded) bool { return p.Name == "etcd" && p.alive() }) {
			continue
		}
		fmt.Fprintf(log, "cleaning testbed %s\n", id)
		failed = append(failed, removeMarked(ctx, id))
	}
	return errors.Join(failed...)
}

// removeMarked kills and removes everything on the machine, outside the state folder, that carries the identifier.
func removeMarked(ctx context.Context, id string) error {
	return errors.Join(killMarked(ctx, id), removeCgroup(ctx, runCgroup(id)), removeLinks(ctx, bridgeName(id)))
}

// teardown stops and removes everything but the logs. Each step works on what is found and not on what should be there, and
// a failed one does not keep the later ones from being tried.
func (c *Cluster) teardown(ctx context.Context) error {
	failed := []error{
		c.stopOthers(ctx),
		c.removeHosts(ctx),
		c.stopControlPlane(ctx),
		removeMarked(ctx, c.id),
		unmountBelow(c.StateDir()),
	}
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("removing testbed %s in %s: %w", c.id, c.StateDir(), err)
	}
	return c.removeFiles()
}

// stopOthers stops, last started first, what is neither the control plane's nor on a host: node processes, mostly.
func (c *Cluster) stopOthers(ctx context.Context) error {
	var failed []error
	for _, p := range slices.Backward(c.store.get().Processes) {
		if p.Host == "" && !slices.Contains(controlPlane(), p.Name) {
			failed = append(failed, p.stop(ctx))
		}
	}
	return errors.Join(failed...)
}

func (c *Cluster) removeHosts(ctx context.Context) error {
	hosts := c.Hosts()
	failed := make([]error, len(hosts))
	var all sync.WaitGroup
	for i, h := range hosts {
		all.Go(func() { failed[i] = h.Remove(ctx) })
	}
	all.Wait()
	return errors.Join(failed...)
}

func (c *Cluster) stopControlPlane(ctx context.Context) error {
	processes := c.store.get().Processes
	var failed []error
	for _, name := range controlPlane() {
		for _, p := range processes {
			if p.Name == name {
				failed = append(failed, p.stop(ctx))
			}
		}
	}
	return errors.Join(failed...)
}

// unmountBelow unmounts what is mounted in a folder. Hosts mount in namespaces of their own, so there is nothing unless
// something went wrong; but what removes the folder's files must not walk into a mount.
func unmountBelow(dir string) error {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("listing mounts: %w", err)
	}
	var failed []error
	for _, point := range slices.Backward(mountsBelow(string(data), dir)) {
		if err := syscall.Unmount(point, syscall.MNT_DETACH); err != nil {
			failed = append(failed, fmt.Errorf("unmounting %s: %w", point, err))
		}
	}
	return errors.Join(failed...)
}

// mountsBelow returns the mount points in a folder in the order of the mount table. The kernel writes blanks in paths as
// octal escapes; state folders have none.
func mountsBelow(mountinfo, dir string) []string {
	var points []string
	for line := range strings.Lines(mountinfo) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			points = append(points, fields[4])
		}
	}
	return points
}

// removeFiles removes all files but the logs. The state goes last: while it is there, a clean-up can be tried again.
func (c *Cluster) removeFiles() error {
	entries, err := os.ReadDir(c.StateDir())
	if err != nil {
		return fmt.Errorf("removing testbed files: %w", err)
	}
	for _, e := range entries {
		if e.Name() == stateFile || e.Name() == filepath.Base(c.LogDir()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.StateDir(), e.Name())); err != nil {
			return fmt.Errorf("removing testbed files: %w", err)
		}
	}
	if err := os.Remove(filepath.Join(c.StateDir(), stateFile)); err != nil {
		return fmt.Errorf("removing testbed files: %w", err)
	}
	return nil
}
