// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

func imageOf(t *testing.T, arch, program, version string, created int64) v1.Image {
	t.Helper()
	img, err := one(arch, []byte(program), version, time.Unix(created, 0))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func TestImagesDifferInWhatCounts(t *testing.T) {
	base := imageOf(t, "amd64", "program", "v1", 1)
	withUser := func() v1.Image {
		config, err := base.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		next := config.Config
		next.User = "0"
		img, err := mutate.Config(base, next)
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	for name, tc := range map[string]struct {
		other v1.Image
		want  []string
	}{
		"time":         {imageOf(t, "amd64", "program", "v1", 2), nil},
		"program":      {imageOf(t, "amd64", "another", "v1", 1), []string{Program}},
		"label":        {imageOf(t, "amd64", "program", "v2", 1), []string{"label org.opencontainers.image.version"}},
		"architecture": {imageOf(t, "arm64", "program", "v1", 1), []string{"platform"}},
		"user":         {withUser(), []string{"user"}},
	} {
		got, err := Differences(base, tc.other)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != len(tc.want) || (len(got) == 1 && !strings.HasPrefix(got[0], tc.want[0]+": ")) {
			t.Errorf("%s: %q, want one about %q", name, got, tc.want)
		}
	}
}

func TestOnlyAStaticProgramOfTheArchitectureWillDo(t *testing.T) {
	if err := RequireStatic(imageOf(t, "amd64", "no program", "v1", 1)); err == nil {
		t.Error("a text was taken for a program")
	}
	self, err := os.ReadFile("/proc/self/exe") // built with the race detector, and so not static, or static
	if err != nil {
		t.Skip("there is no /proc")
	}
	for _, arch := range []string{"amd64", "arm64"} {
		err := requireStatic(self, arch)
		if matches := err == nil || strings.Contains(err.Error(), "static"); matches != (arch == runtime.GOARCH) {
			t.Errorf("this program as one for %s: %v", arch, err)
		}
	}
}
