// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// An Image is the content and the settings of one image.
type Image struct {
	// Names are full references ("registry.k8s.io/pause:3.10.2") the image is known by.
	Names []string
	// Layers are applied in order. Images that share a leading layer share its bytes in the archive.
	Layers []Layer
	// Settings are what a container gets that does not say otherwise.
	Settings Settings
}

// Settings are the parts of an OCI image configuration that the images use; the field tags are the specification's names.
type Settings struct {
	User         string              `json:"User,omitempty"`
	ExposedPorts map[string]struct{} `json:"ExposedPorts,omitempty"`
	Env          []string            `json:"Env,omitempty"`
	Entrypoint   []string            `json:"Entrypoint,omitempty"`
	Cmd          []string            `json:"Cmd,omitempty"`
	WorkingDir   string              `json:"WorkingDir,omitempty"`
}

// Media types of the OCI image specification.
const (
	mediaTypeIndex    = "application/vnd.oci.image.index.v1+json"
	mediaTypeManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaTypeConfig   = "application/vnd.oci.image.config.v1+json"
	mediaTypeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// annotationName is what containerd's import takes an image's full name from.
const annotationName = "io.containerd.image.name"

// created is the creation time of every image and file: a fixed one, so that equal input gives equal digests.
var created = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Platform    *platform         `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []descriptor `json:"manifests"`
}

type configuration struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	Config       Settings  `json:"config"`
	RootFS       rootFS    `json:"rootfs"`
}

type rootFS struct {
	Type    string   `json:"type"`
	DiffIDs []string `json:"diff_ids"`
}

// Write writes the images as one OCI archive. Each image is listed under all its names and, as after a pull, under
// repository@digest, which is what CRI reports as RepoDigests.
func Write(w io.Writer, images ...Image) error {
	a := &archive{tar: tar.NewWriter(w), written: map[string]bool{}}
	if err := a.add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	all := index{SchemaVersion: 2, MediaType: mediaTypeIndex, Manifests: []descriptor{}}
	for _, image := range images {
		d, err := a.image(image)
		if err != nil {
			return fmt.Errorf("assembling image %s: %w", strings.Join(image.Names, ", "), err)
		}
		for _, name := range withDigests(image.Names, d.Digest) {
			named := d
			named.Annotations = map[string]string{annotationName: name}
			all.Manifests = append(all.Manifests, named)
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding the image index: %w", err)
	}
	if err := a.add("index.json", data); err != nil {
		return err
	}
	return a.tar.Close()
}

// withDigests returns the names and, once per repository, the name by digest.
func withDigests(names []string, digest string) []string {
	all := slices.Clone(names)
	for _, name := range names {
		repository := name
		// A colon after the last slash starts the tag; one before it belongs to a registry's port.
		if colon := strings.LastIndexByte(name, ':'); colon > strings.LastIndexByte(name, '/') {
			repository = name[:colon]
		}
		if byDigest := repository + "@" + digest; !slices.Contains(all, byDigest) {
			all = append(all, byDigest)
		}
	}
	return all
}

// archive is an OCI archive being written.
type archive struct {
	tar     *tar.Writer
	written map[string]bool // names of entries
}

// image writes an image's blobs and returns the descriptor of its manifest.
func (a *archive) image(image Image) (descriptor, error) {
	here := platform{Architecture: runtime.GOARCH, OS: "linux"}
	c := configuration{
		Created: created, Architecture: here.Architecture, OS: here.OS, Config: image.Settings,
		RootFS: rootFS{Type: "layers", DiffIDs: []string{}},
	}
	m := manifest{SchemaVersion: 2, MediaType: mediaTypeManifest, Layers: []descriptor{}}
	for i, layer := range image.Layers {
		var data bytes.Buffer
		if err := layer.write(&data); err != nil {
			return descriptor{}, fmt.Errorf("layer %d: %w", i, err)
		}
		d, err := a.blob(mediaTypeLayer, data.Bytes())
		if err != nil {
			return descriptor{}, err
		}
		m.Layers = append(m.Layers, d)
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, d.Digest) // layers are not compressed, so both digests are one
	}
	var err error
	if m.Config, err = a.jsonBlob(mediaTypeConfig, c); err != nil {
		return descriptor{}, err
	}
	d, err := a.jsonBlob(mediaTypeManifest, m)
	d.Platform = &here
	return d, err
}

func (a *archive) jsonBlob(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, fmt.Errorf("encoding %s: %w", mediaType, err)
	}
	return a.blob(mediaType, data)
}

func (a *archive) blob(mediaType string, data []byte) (descriptor, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	d := descriptor{MediaType: mediaType, Digest: "sha256:" + name, Size: int64(len(data))}
	return d, a.add("blobs/sha256/"+name, data)
}

// add writes one entry; an entry of the same name has the same content and is there already.
func (a *archive) add(name string, data []byte) error {
	if a.written[name] {
		return nil
	}
	a.written[name] = true
	header := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: created, Typeflag: tar.TypeReg}
	if err := a.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s to the archive: %w", name, err)
	}
	if _, err := a.tar.Write(data); err != nil {
		return fmt.Errorf("writing %s to the archive: %w", name, err)
	}
	return nil
}
