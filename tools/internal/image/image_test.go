// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var programs = map[string][]byte{"amd64": []byte("program"), "arm64": []byte("other program")}

func TestTheSameProgramsMakeTheSameImage(t *testing.T) {
	created := time.Unix(1700000000, 0)
	var archives [2][]byte
	for i := range archives {
		index, err := Assemble(programs, "v1.2.3", created)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "image.tar")
		if err := Write(index, "ghcr.io/tombolo-dev/tombolo:v1.2.3", file); err != nil {
			t.Fatal(err)
		}
		if archives[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same programs differ")
	}
}

func TestWhatTheImagesAre(t *testing.T) {
	index, err := Assemble(programs, "v1.2.3", time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Config.User != User || config.Config.Labels["org.opencontainers.image.version"] != "v1.2.3" || len(config.RootFS.DiffIDs) != 1 ||
			config.Architecture != m.Platform.Architecture || config.Created.Unix() != 1700000000 {
			t.Errorf("%s: %+v", m.Platform, config)
		}
	}
	if got := strings.Join(platforms, " "); got != "linux/amd64 linux/arm64" {
		t.Errorf("platforms %s", got)
	}
}

// TestTheDockerfileMakesTheSame: two descriptions of one image must not drift apart.
func TestTheDockerfileMakesTheSame(t *testing.T) {
	data, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"USER " + User + "\n", fmt.Sprintf("ENTRYPOINT [%q]", Program), " " + Program + "\n"}
	for key, value := range Labels("${VERSION}") {
		want = append(want, fmt.Sprintf("%s=%q", key, value))
	}
	for _, text := range want {
		if !strings.Contains(string(data), text) {
			t.Errorf("Dockerfile has no %q", text)
		}
	}
}
