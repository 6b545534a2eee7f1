// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// Stamp is what a program knows of itself.
type Stamp struct {
	Version, Commit string
	Created         time.Time
}

// Build builds the program for an architecture from the repository in dir, as the Dockerfile does.
func Build(ctx context.Context, dir, arch string, s Stamp, file string) error {
	stamps := fmt.Sprintf("-s -w -X main.version=%s -X main.commit=%s -X main.date=%s", s.Version, s.Commit, s.Created.UTC().Format(time.RFC3339))
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", stamps, "-o", file, "./cmd/tombolo")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building for %s: %w\n%s", arch, err, text)
	}
	return nil
}
