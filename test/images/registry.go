// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

// A Registry serves the images of an archive to containerd, so that pulls work as from the registries the images are named
// after. It is the half of the distribution protocol that a pull needs, and read-only. It is meant to stand behind the
// hosts.toml of containerd, which tells it in each request for which registry it stands.
//
// Requests may come at once. Close must come after the last of them.
type Registry struct {
	file    *os.File
	entries map[string]*io.SectionReader // by name in the archive
	digests map[string]descriptor        // manifests, by repository:tag and by repository@digest
}

var _ http.Handler = (*Registry)(nil)

// OpenRegistry reads the index of an archive that Archive made.
func OpenRegistry(archive string) (*Registry, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, fmt.Errorf("serving images: %w", err)
	}
	r := &Registry{file: f, entries: map[string]*io.SectionReader{}, digests: map[string]descriptor{}}
	if err := r.read(); err != nil {
		f.Close()
		return nil, fmt.Errorf("serving images of %s: %w", archive, err)
	}
	return r, nil
}

// Close closes the archive.
func (r *Registry) Close() error { return r.file.Close() }

func (r *Registry) read() error {
	for t := tar.NewReader(r.file); ; {
		header, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		// The reader takes from the file no more than the header, so the content starts where the file is now.
		offset, err := r.file.Seek(0, io.SeekCurrent)
		if err != nil {
			return err
		}
		r.entries[header.Name] = io.NewSectionReader(r.file, offset, header.Size)
	}
	const name = "index.json"
	if r.entries[name] == nil {
		return errors.New("it has no " + name)
	}
	var all index
	if err := json.NewDecoder(r.entries[name]).Decode(&all); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	for _, d := range all.Manifests {
		r.digests[d.Annotations[annotationName]] = d
	}
	return nil
}

// ServeHTTP answers GET and HEAD of /v2/<repository>/manifests/<tag or digest> and /v2/<repository>/blobs/<digest>; the
// parameter ns is the registry the repository belongs to.
func (r *Registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		http.Error(w, "this registry is read-only", http.StatusMethodNotAllowed)
		return
	}
	path, ok := strings.CutPrefix(request.URL.Path, "/v2/")
	if !ok {
		http.NotFound(w, request)
		return
	}
	if path == "" {
		return // the protocol is spoken here
	}
	repository, kind, reference := split(path)
	if ns := request.URL.Query().Get("ns"); ns != "" {
		repository = ns + "/" + repository
	}
	d, known := descriptor{Digest: reference, MediaType: "application/octet-stream"}, kind == "blobs"
	if kind == "manifests" {
		d, known = r.manifest(repository, reference)
	}
	content := r.entries["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
	if !known || content == nil {
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", d.MediaType)
	w.Header().Set("Docker-Content-Digest", d.Digest)
	http.ServeContent(w, request, "", created, io.NewSectionReader(content, 0, content.Size()))
}

func (r *Registry) manifest(repository, reference string) (descriptor, bool) {
	separator := ":"
	if strings.Contains(reference, ":") {
		separator = "@"
	}
	d, ok := r.digests[repository+separator+reference]
	return d, ok
}

// split takes <repository>/<kind>/<reference> apart; a repository may have slashes.
func split(path string) (repository, kind, reference string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", "", ""
	}
	path, reference = path[:i], path[i+1:]
	if i = strings.LastIndexByte(path, '/'); i < 0 {
		return "", "", ""
	}
	return path[:i], path[i+1:], reference
}
