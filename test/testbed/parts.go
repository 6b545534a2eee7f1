// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// programs are the parts a testbed needs in its bin folder.
func programs() []string {
	return []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "containerd", "containerd-shim-runc-v2",
		"ctr", "runc", "crictl", "bridge", "host-local", "loopback", "portmap", "pause", "agnhost",
	}
}

// findBin returns the folder of the programs and makes sure that it has all of them: one taken from elsewhere on the PATH
// would have an unknown version.
func findBin(ctx context.Context, bin string) (string, error) {
	if bin == "" {
		if found, err := exec.LookPath("kube-apiserver"); err == nil {
			bin = filepath.Dir(found)
		} else if bin, err = askParts(ctx); err != nil {
			return "", err
		}
	}
	var missing []string
	for _, name := range programs() {
		if !exists(filepath.Join(bin, name)) {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("folder %s lacks %s: run go run -C tools ./cmd/parts build testbed", bin, strings.Join(missing, ", "))
	}
	return bin, nil
}

// askParts asks the builder of the repository that the working directory is in.
func askParts(ctx context.Context) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the parts: %w", err)
	}
	for !exists(filepath.Join(dir, "tools", "cmd", "parts")) {
		if dir == filepath.Dir(dir) {
			return "", errors.New("finding the parts: kube-apiserver is not on the PATH and this is not the repository")
		}
		dir = filepath.Dir(dir)
	}
	out, err := exec.CommandContext(ctx, "go", "run", "-C", filepath.Join(dir, "tools"), "./cmd/parts", "bin").Output()
	if err != nil {
		return "", fmt.Errorf("finding the parts: asking tools/cmd/parts: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// CacheDir is the folder tools/cmd/parts keeps its results in; assembled images go there too.
func CacheDir() (string, error) {
	if dir := os.Getenv("TOMBOLO_CACHE"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder: %w; set TOMBOLO_CACHE", err)
	}
	return filepath.Join(dir, "tombolo"), nil
}
