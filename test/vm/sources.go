// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sources returns the suite of the Debian below root and the files that say where apt gets its packages from: the machine is
// made of the same. Files of other archives, which have suites of other names, are left out.
func sources(root string) (suite string, files []string, err error) {
	release, err := os.ReadFile(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return "", nil, fmt.Errorf("finding out which Debian this is: %w", err)
	}
	if id := assigned(release, "ID"); id != "debian" {
		return "", nil, fmt.Errorf("the virtual machine is made of Debian's packages, and this machine is %q: run it on Debian", id)
	}
	suite = assigned(release, "VERSION_CODENAME")
	all, err := filepath.Glob(filepath.Join(root, "etc/apt/sources.list.d/*"))
	if err != nil {
		return "", nil, fmt.Errorf("finding the sources of apt: %w", err)
	}
	for _, file := range append([]string{filepath.Join(root, "etc/apt/sources.list")}, all...) {
		data, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", nil, fmt.Errorf("finding the sources of apt: %w", err)
		}
		if names(data, suite) {
			files = append(files, file)
		}
	}
	if suite == "" || len(files) == 0 {
		return "", nil, fmt.Errorf("apt has no source of the suite %q", suite)
	}
	return suite, files, nil
}

// assigned returns the value of a variable in a file of shell assignments.
func assigned(data []byte, name string) string {
	for line := range bytes.Lines(data) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(string(line)), name+"="); ok {
			return strings.Trim(value, `"'`)
		}
	}
	return ""
}

// names says whether a list of sources, in either of apt's formats, has the suite.
func names(data []byte, suite string) bool {
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for scanner.Scan() {
		line, _, _ := strings.Cut(scanner.Text(), "#")
		if slices.Contains(strings.Fields(line), suite) {
			return true
		}
	}
	return false
}
