// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package staticpods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"k8s.io/utils/clock"
)

// maxManifest is the longest manifest that is read, in bytes.
const maxManifest = 10 << 20

// origin is where manifests come from.
type origin interface {
	// read returns all manifests there are. An error says nothing of them. broken are those that are there and cannot be
	// read.
	read(ctx context.Context) (docs []document, broken map[string]error, err error)
	// hint calls changed when it may be worth reading, until ctx ends.
	hint(ctx context.Context, changed func())
}

// directory holds one manifest in each file. Hidden files and sub-directories do not count.
type directory struct {
	path  string
	clock clock.WithTicker
}

func (d *directory) read(context.Context) ([]document, map[string]error, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the directory of manifests: %w", err)
	}
	var docs []document
	broken := map[string]error{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		path := filepath.Join(d.path, entry.Name())
		info, err := os.Stat(path) // the target of a symbolic link counts
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err == nil && info.IsDir():
			continue
		case err == nil && !info.Mode().IsRegular():
			err = errors.New("not a regular file")
		}
		var data []byte
		if err == nil {
			data, err = readFile(path)
		}
		if err != nil {
			broken[path] = err
			continue
		}
		docs = append(docs, document{kind: "file", origin: path, data: data})
	}
	return docs, broken, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f)
}

func readBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxManifest+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxManifest {
		return nil, fmt.Errorf("longer than %d bytes", maxManifest)
	}
	return data, nil
}

// hint watches the directory. One that is not there, or is replaced, is found at a later attempt.
func (d *directory) hint(ctx context.Context, changed func()) {
	tick := d.clock.NewTicker(readPeriod)
	defer tick.Stop()
	for {
		_ = d.watch(ctx, changed) // the directory is read every now and then anyway, and that tells what is wrong
		select {
		case <-ctx.Done():
			return
		case <-tick.C():
		}
	}
}

func (d *directory) watch(ctx context.Context, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(d.path); err != nil {
		return err
	}
	changed() // whatever happened before
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-watcher.Events:
			if !ok || event.Name == d.path && event.Has(fsnotify.Remove|fsnotify.Rename) {
				return errors.New("the directory is gone")
			}
			changed()
		case err := <-watcher.Errors:
			return err
		}
	}
}

// page is one manifest at a URL.
type page struct {
	url    string
	header http.Header
	client *http.Client
}

func (p *page) read(ctx context.Context) ([]document, map[string]error, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(req.Header, p.header)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("reading the manifest: status %s", resp.Status)
	}
	data, err := readBounded(resp.Body)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the manifest: %w", err)
	}
	if len(data) == 0 {
		return nil, nil, errors.New("reading the manifest: it is empty; an empty PodList means no pods")
	}
	return []document{{kind: "http", origin: p.url, data: data}}, nil, nil
}

// hint has none: the page is read again and again.
func (p *page) hint(ctx context.Context, _ func()) { <-ctx.Done() }
