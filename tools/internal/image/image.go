// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// Program is where the program is in the image.
	Program = "/usr/local/bin/tombolo"
	// User is who it runs as.
	User = "65532:65532"
)

// Labels are what the image says of itself.
func Labels(version string) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "tombolo",
		"org.opencontainers.image.description": "Ties a machine that runs nothing but containerd to a Kubernetes cluster",
		"org.opencontainers.image.source":      "https://github.com/tombolo-dev/tombolo",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     version,
	}
}

// Assemble makes an image for each architecture, of its program.
func Assemble(programs map[string][]byte, version string, created time.Time) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range slices.Sorted(maps.Keys(programs)) {
		img, err := one(arch, programs[arch], version, created.UTC())
		if err != nil {
			return nil, fmt.Errorf("assembling the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

// one makes the image of one architecture.
func one(arch string, program []byte, version string, created time.Time) (v1.Image, error) {
	content, err := archive(program, created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: created}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: User, Entrypoint: []string{Program}, Labels: Labels(version), Env: []string{"PATH=/usr/local/bin"}},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(img, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: created}, CreatedBy: "make image"}})
}

// archive is the layer: the program and the folders above it.
func archive(program []byte, created time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"usr/", "usr/local/", "usr/local/bin/"} {
		if err := w.WriteHeader(&tar.Header{Name: dir, Typeflag: tar.TypeDir, Mode: 0o755, ModTime: created}); err != nil {
			return nil, err
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: Program[1:], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(program)), ModTime: created}); err != nil {
		return nil, err
	}
	if _, err := w.Write(program); err != nil {
		return nil, err
	}
	return b.Bytes(), w.Close()
}

// Write writes the images as one archive in OCI layout, which ctr, nerdctl, podman and skopeo take. The images are called name.
func Write(index v1.ImageIndex, name, file string) error {
	dir, err := os.MkdirTemp("", "tombolo-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name,
	})); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := pack(dir, out); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// pack writes the files of a folder to an archive, in order and without times.
func pack(dir string, out io.Writer) error {
	w := tar.NewWriter(out)
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))}); err != nil {
			return err
		}
		_, err = w.Write(data)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
