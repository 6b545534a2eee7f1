// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tombolo-dev/tombolo/test/images"
	"github.com/tombolo-dev/tombolo/test/nodes"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

// kubeletResults returns what the real kubelet makes of a selection, from an earlier run of the same versions if there is
// one and no new one is asked for.
func (r *runner) kubeletResults(ctx context.Context, s selection) (Results, error) {
	file, err := r.cacheFile(s)
	if err != nil {
		return nil, err
	}
	if !r.refresh {
		results, err := readResults(file)
		if err == nil {
			fmt.Fprintf(r.out, "kubelet: %s; from the cache, -refresh runs it again\n", results.summary())
			return results, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	results, err := r.run(ctx, nodes.Kubelet, s)
	if err != nil {
		return nil, err
	}
	return results, writeResults(file, results)
}

// cacheFile is named after everything that decides what the results are: the programs, whose links lead to folders of their
// versions, the images, and the selection.
func (r *runner) cacheFile(s selection) (string, error) {
	cache, err := testbed.CacheDir()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, program := range []string{"kubelet", "e2e.test", "containerd", "runc", "kube-apiserver", "agnhost"} {
		path, err := filepath.EvalSymlinks(filepath.Join(r.bin, program))
		if err != nil {
			return "", fmt.Errorf("%w: run go run -C tools ./cmd/parts build testbed conformance compare", err)
		}
		fmt.Fprintln(h, path)
	}
	fmt.Fprintln(h, s.arguments(), suiteFlags, images.Version)
	return filepath.Join(cache, "conformance", "kubelet-"+hex.EncodeToString(h.Sum(nil))[:12]+".json"), nil
}

func readResults(file string) (Results, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var results Results
	if err := json.Unmarshal(data, &results); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return results, nil
}

func writeResults(file string, results Results) error {
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	// A rename, so that a file that exists is whole.
	temporary := file + ".part"
	if err := os.WriteFile(temporary, data, 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, file)
}
