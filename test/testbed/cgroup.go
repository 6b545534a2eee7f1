// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// systemCgroup is where a host's own processes are. In cgroup v2 a group with members cannot give its controllers to
// children, so the group that looks like the root from inside must be empty.
const systemCgroup = "system"

// A hierarchy is one mounted cgroup tree: one of several in v1 and hybrid set-ups, the only one in v2.
type hierarchy struct {
	Mount   string
	unified bool // cgroup v2
}

// parseHierarchies finds the cgroup mounts in the content of /proc/self/mountinfo.
func parseHierarchies(mountinfo string) []hierarchy {
	var found []hierarchy
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if len(left) < 5 || len(right) == 0 {
			continue
		}
		if kind := right[0]; kind == "cgroup" || kind == "cgroup2" {
			found = append(found, hierarchy{Mount: left[4], unified: kind == "cgroup2"})
		}
	}
	return found
}

func hierarchies() ([]hierarchy, error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("finding cgroups: %w", err)
	}
	found := parseHierarchies(string(data))
	if len(found) == 0 {
		return nil, errors.New("finding cgroups: no cgroup file system is mounted")
	}
	return found, nil
}

// runCgroup is the name, in each hierarchy, of the group that holds the hosts of a testbed.
func runCgroup(id string) string { return "tombolo-testbed-" + id }

// makeHostCgroup makes the groups of a host in every hierarchy, with the controllers and CPUs of their parents.
func makeHostCgroup(id, host string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		parent := h.Mount
		for _, name := range []string{runCgroup(id), host, systemCgroup} {
			// In the host's own group this is done by its boot script, when its processes have left for the group "system".
			if h.unified && name != systemCgroup {
				if err := delegate(parent); err != nil && len(all) == 1 {
					return err
				}
			}
			child := filepath.Join(parent, name)
			if err := os.Mkdir(child, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("making cgroup: %w", err)
			}
			if err := inheritCPUs(parent, child); err != nil {
				return err
			}
			parent = child
		}
	}
	return nil
}

// delegate enables in the children of a v2 group every controller it has. Besides a v1 set-up some may be refused.
func delegate(group string) error {
	data, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("delegating cgroup controllers: %w", err)
	}
	for controller := range strings.FieldsSeq(string(data)) {
		if err := os.WriteFile(filepath.Join(group, "cgroup.subtree_control"), []byte("+"+controller), 0); err != nil {
			return fmt.Errorf("delegating cgroup controller %s: %w", controller, err)
		}
	}
	return nil
}

// inheritCPUs fills the v1 cpuset of a new group, which takes no process while it is empty.
func inheritCPUs(parent, child string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		data, err := os.ReadFile(filepath.Join(child, name))
		if err != nil || strings.TrimSpace(string(data)) != "" {
			continue // another controller, or v2, where empty means the parent's
		}
		if data, err = os.ReadFile(filepath.Join(parent, name)); err != nil {
			return fmt.Errorf("reading cpuset: %w", err)
		}
		if len(strings.TrimSpace(string(data))) == 0 {
			continue
		}
		if err := os.WriteFile(filepath.Join(child, name), data, 0); err != nil {
			return fmt.Errorf("setting cpuset: %w", err)
		}
	}
	return nil
}

// removeCgroup kills every process in a group of all hierarchies (path relative to their mounts) and removes it with its
// children. A group that does not exist is no error.
func removeCgroup(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, removeCgroupTimeout)
	defer cancel()
	var members int
	var err error
	removed := poll(ctx, func() bool {
		var groups []string
		if groups, err = groupsBelow(path); err != nil {
			return false
		}
		if members = killMembers(groups); members > 0 {
			return false
		}
		err = removeGroups(groups)
		return err == nil
	})
	switch {
	case removed == nil:
		return nil
	case err != nil:
		return err
	default:
		return fmt.Errorf("killing the processes of cgroup %s: %d are left: %w", path, members, removed)
	}
}

// removeCgroupTimeout is long for a machine that is busy: what is killed has to be scheduled to end.
const removeCgroupTimeout = time.Minute

// groupsBelow are a cgroup and all below it in each hierarchy, children after parents. What is killed may still have made one
// since the last time.
func groupsBelow(path string) ([]string, error) {
	all, err := hierarchies()
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, h := range all {
		top := filepath.Join(h.Mount, path)
		err := filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				groups = append(groups, name)
			}
			return nil // what vanishes while walking is what we want
		})
		if err != nil {
			return nil, fmt.Errorf("listing cgroup %s: %w", top, err)
		}
	}
	return groups, nil
}

// killMembers kills what is in the groups and returns how many processes it found.
func killMembers(groups []string) int {
	pids := map[int]bool{}
	for _, g := range groups {
		// A frozen process does not die: first in v1, then in v2, where one write kills all, forks included.
		if exists(filepath.Join(g, "freezer.state")) {
			_ = os.WriteFile(filepath.Join(g, "freezer.state"), []byte("THAWED"), 0)
		}
		if exists(filepath.Join(g, "cgroup.kill")) {
			_ = os.WriteFile(filepath.Join(g, "cgroup.kill"), []byte("1"), 0)
		}
		data, err := os.ReadFile(filepath.Join(g, "cgroup.procs"))
		if err != nil {
			continue
		}
		for field := range strings.FieldsSeq(string(data)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 0 && pid != os.Getpid() {
				pids[pid] = true
			}
		}
	}
	for pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	return len(pids)
}

// removeGroups removes groups, children first. The kernel may hold one for a moment after its last process has gone.
func removeGroups(groups []string) error {
	for _, g := range slices.Backward(groups) {
		if err := syscall.Rmdir(g); err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("removing cgroup %s: %w", g, err)
		}
	}
	return nil
}
