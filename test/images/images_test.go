// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testPrograms(t *testing.T) Programs {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"pause", "agnhost", "busybox"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("program "+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return Programs{Parts: dir, Busybox: filepath.Join(dir, "busybox"), Applets: []string{"bin/busybox", "bin/sh", "usr/bin/id"}}
}

func entries(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := found[h.Name]; twice {
			t.Errorf("entry %s is there twice", h.Name)
		}
		if found[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWriteGivesTheSameBytesForTheSameInput(t *testing.T) {
	p := testPrograms(t)
	var first, second bytes.Buffer
	if err := Write(&first, Standard(p)...); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pause", "agnhost", "busybox"} { // file times of the machine must not count
		if err := os.Chtimes(filepath.Join(p.Parts, name), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(p.Applets)
	if err := Write(&second, Standard(p)...); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("archives differ")
	}
}

func TestWriteMakesAnArchiveWhoseDigestsHold(t *testing.T) {
	var archive bytes.Buffer
	if err := Write(&archive, Standard(testPrograms(t))...); err != nil {
		t.Fatal(err)
	}
	files := entries(t, archive.Bytes())
	for name, data := range files {
		if digest, isBlob := strings.CutPrefix(name, "blobs/sha256/"); isBlob {
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != digest {
				t.Errorf("%s: content has another digest", name)
			}
		}
	}
	var got index
	if err := json.Unmarshal(files["index.json"], &got); err != nil {
		t.Fatal(err)
	}
	blob := func(d descriptor) []byte {
		data, ok := files["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
		if !ok || int64(len(data)) != d.Size {
			t.Errorf("descriptor %v: blob of %d bytes, found %v", d, len(data), ok)
		}
		return data
	}
	names := map[string]string{}
	for _, d := range got.Manifests {
		names[d.Annotations[annotationName]] = d.Digest
		var m manifest
		if err := json.Unmarshal(blob(d), &m); err != nil {
			t.Fatal(err)
		}
		var c configuration
		if err := json.Unmarshal(blob(m.Config), &c); err != nil {
			t.Fatal(err)
		}
		var layers []string
		for _, l := range m.Layers {
			blob(l)
			layers = append(layers, l.Digest)
		}
		if diff := cmp.Diff(layers, c.RootFS.DiffIDs); diff != "" {
			t.Errorf("%s: layers and diff ids differ:\n%s", d.Annotations[annotationName], diff)
		}
	}
	for _, name := range []string{Pause, Busybox, Agnhost, "docker.io/library/busybox:1.37"} {
		if names[name] == "" {
			t.Errorf("index has no %s", name)
		}
	}
	if digest := names[Pause]; names["registry.k8s.io/pause@"+digest] != digest {
		t.Errorf("index has no name by digest for %s", Pause)
	}
}

func TestLayerAddsParentsBeforeTheirContent(t *testing.T) {
	var data bytes.Buffer
	layer := Layer{{Path: "/usr/bin/id", Link: "/bin/busybox"}, {Path: "/usr", Folder: true, Mode: 0o700}, {Path: "/a", Data: "x"}}
	if err := layer.write(&data); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&data); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.FileInfo().Mode().String()+" "+h.Name)
	}
	want := []string{"-rwxr-xr-x a", "drwx------ usr/", "drwxr-xr-x usr/bin/", "Lrwxrwxrwx usr/bin/id"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestLayerRefusesWhatReadersWouldDisagreeOn(t *testing.T) {
	for name, layer := range map[string]Layer{
		"twice":    {{Path: "/a"}, {Path: "/a/"}},
		"relative": {{Path: "a"}},
		"root":     {{Path: "/"}},
		"missing":  {{Path: "/a", Source: "/no/such/file"}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := layer.write(io.Discard); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestWithDigests(t *testing.T) {
	got := withDigests([]string{"r/a:1", "r/a:2", "host:5000/b", "host:5000/c:3"}, "sha256:d")
	want := []string{"r/a:1", "r/a:2", "host:5000/b", "host:5000/c:3", "r/a@sha256:d", "host:5000/b@sha256:d", "host:5000/c@sha256:d"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestKeyFollowsTheContentOfThePrograms(t *testing.T) {
	p := testPrograms(t)
	first, err := p.key()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.Busybox, []byte("another busybox"), 0o755); err != nil {
		t.Fatal(err)
	}
	if second, err := p.key(); err != nil || second == first {
		t.Errorf("key %s before and %s, %v after a change", first, second, err)
	}
}
