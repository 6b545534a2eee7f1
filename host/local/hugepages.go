// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
)

// hugetlbfs is the kernel's name for a file system of huge pages.
const hugetlbfs = "hugetlbfs"

// ensureHugePages makes a directory and mounts a file system of huge pages on it. One that is mounted there is left as it is.
func (h *Host) ensureHugePages(d directory, pageBytes, size int64) error {
	if err := h.checkHugePages(pageBytes); err != nil {
		return err
	}
	options := []string{fmt.Sprintf("pagesize=%d", pageBytes)}
	err := h.ensureMounted(d, size, options, func(target *os.File, options []string) error {
		return unix.Mount(hugetlbfs, fdPath(target), hugetlbfs, 0, strings.Join(options, ","))
	})
	if err != nil {
		return err
	}
	return h.root.Chmod(d.path, toFileMode(d.mode)) // the option takes no bit that hands on the group
}

// checkHugePages says whether the kernel has huge pages of a size: whoever used a file system of those that it lacks would be
// killed.
func (h *Host) checkHugePages(pageBytes int64) error {
	dir := fmt.Sprintf("sys/kernel/mm/hugepages/hugepages-%dkB", pageBytes>>10)
	for _, name := range []string{"nr_hugepages", "nr_overcommit_hugepages"} {
		text, err := os.ReadFile(filepath.Join(h.systemRoot, dir, name))
		if err == nil && strings.TrimSpace(string(text)) != "0" {
			return nil
		}
	}
	return fmt.Errorf("the host has no huge pages of %d KiB; reserve some in /%s/nr_hugepages: %w", pageBytes>>10, dir,
		errdefs.ErrFailedPrecondition)
}
