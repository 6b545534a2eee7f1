// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command dockerfile builds the Dockerfile with buildah, twice for each architecture, and compares what comes out with itself and
// with the image that command image assembles. The image to build in is made from what this machine has: its Go, busybox for a
// shell, its certificates. So no registry is needed, only the modules' proxy.
//
// Run it as root from the repository: go run -C tools ./cmd/dockerfile
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/tombolo-dev/tombolo/tools/internal/image"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	archs := flag.String("arch", "amd64,arm64", "architectures, separated by commas")
	version := flag.String("version", "v0.0.0", "version of the program")
	fresh := flag.Bool("fresh", false, "compile everything anew, instead of using this machine's cache of the go command")
	flag.Parse()
	if err := run(ctx, *version, *fresh, strings.Split(*archs, ",")); err != nil {
		fmt.Fprintln(os.Stderr, "dockerfile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version string, fresh bool, archs []string) (err error) {
	work, err := os.MkdirTemp("", "tombolo-dockerfile-")
	if err != nil {
		return err
	}
	defer func() {
		if removing := os.RemoveAll(work); err == nil {
			err = removing
		}
	}()
	b := &builder{work: work, version: version, fresh: fresh}
	if b.commit, b.created, err = lastCommit(ctx); err != nil {
		return err
	}
	if err := b.makeBase(ctx); err != nil {
		return err
	}
	assembled, err := b.assemble(ctx, archs)
	if err != nil {
		return err
	}
	for _, arch := range archs {
		if err := b.check(ctx, arch, assembled); err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
	}
	return nil
}

// builder is what all builds have in common.
type builder struct {
	work            string
	version, commit string
	created         time.Time
	fresh           bool // do not use what was compiled before
}

// base is the name of the image to build in.
const base = "localhost/golang:local"

// check builds the image for an architecture twice.
func (b *builder) check(ctx context.Context, arch string, assembled v1.ImageIndex) error {
	first, err := b.build(ctx, arch)
	if err != nil {
		return err
	}
	second, err := b.build(ctx, arch)
	if err != nil {
		return err
	}
	digest, err := first.Digest()
	if err != nil {
		return err
	}
	if again, err := second.Digest(); err != nil || again != digest {
		return fmt.Errorf("two builds of the same sources are %s and %s, %w", digest, again, err)
	}
	if err := image.RequireStatic(first); err != nil {
		return err
	}
	want, err := ofArchitecture(assembled, arch)
	if err != nil {
		return err
	}
	differences, err := image.Differences(first, want)
	if err != nil {
		return err
	}
	if len(differences) > 0 {
		return fmt.Errorf("the image of the Dockerfile and that of make image differ:\n%s", strings.Join(differences, "\n"))
	}
	fmt.Printf("%s: built twice, %s each time; its content is that of make image\n", arch, digest)
	return nil
}

// build builds the Dockerfile.
func (b *builder) build(ctx context.Context, arch string) (v1.Image, error) {
	begin := time.Now()
	modules, err := output(ctx, "go", "env", "GOMODCACHE")
	if err != nil {
		return nil, err
	}
	name := "localhost/tombolo:" + arch
	compiled, err := b.compiled(ctx)
	if err != nil {
		return nil, err
	}
	args := []string{
		"build", "--no-cache", "--network", "host", "--isolation", "chroot", "--platform", "linux/" + arch, "--timestamp", fmt.Sprint(b.created.Unix()),
		"--volume", filepath.Join(modules, "cache", "download") + ":/modules:ro", "--volume", compiled + ":/compiled", "--build-arg", "GO=" + base, "--build-arg", "VERSION=" + b.version,
		"--build-arg", "COMMIT=" + b.commit, "--build-arg", "DATE=" + b.created.Format(time.RFC3339), "--tag", name, "..",
	}
	if _, err := b.buildah(ctx, args...); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(b.work, arch+"-")
	if err != nil {
		return nil, err
	}
	if _, err := b.buildah(ctx, "push", "--quiet", name, "oci:"+dir); err != nil {
		return nil, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	if n := len(manifest.Manifests); n != 1 {
		return nil, fmt.Errorf("buildah made %d images", n)
	}
	fmt.Printf("%s: built in %.0f s\n", arch, time.Since(begin).Seconds())
	return index.Image(manifest.Manifests[0].Digest)
}

// compiled is the folder for what the go command compiles: that of this machine, or an empty one.
func (b *builder) compiled(ctx context.Context) (string, error) {
	if b.fresh {
		return os.MkdirTemp(b.work, "compiled-")
	}
	return output(ctx, "go", "env", "GOCACHE")
}

// makeBase makes the image to build in.
func (b *builder) makeBase(ctx context.Context) error {
	root, err := output(ctx, "go", "env", "GOROOT")
	if err != nil {
		return err
	}
	proxy, err := output(ctx, "go", "env", "GOPROXY")
	if err != nil {
		return err
	}
	sums, err := output(ctx, "go", "env", "GONOSUMDB")
	if err != nil {
		return err
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return err
	}
	container, err := b.buildah(ctx, "from", "scratch")
	if err != nil {
		return err
	}
	empty, err := os.MkdirTemp(b.work, "empty-")
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"copy", "--quiet", container, root, "/usr/local/go"},
		{"copy", "--quiet", container, busybox, "/bin/sh"},
		{"copy", "--quiet", container, empty, "/tmp"},
		{"copy", "--quiet", container, "/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/certs/ca-certificates.crt"},
		{"config", "--env", "PATH=/usr/local/go/bin:/bin", "--env", "GOPATH=/go", "--env", "GOTOOLCHAIN=local", "--env", "GOCACHE=/compiled",
			"--env", "GOPROXY=file:///modules," + proxy, "--env", "GONOSUMDB=" + sums, container},
		{"commit", "--quiet", "--rm", container, base},
	} {
		if _, err := b.buildah(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// assemble runs command image and reads what it made.
func (b *builder) assemble(ctx context.Context, archs []string) (v1.ImageIndex, error) {
	programs := map[string][]byte{}
	for _, arch := range archs {
		file := filepath.Join(b.work, "tombolo-"+arch)
		if err := image.Build(ctx, "..", arch, image.Stamp{Version: b.version, Commit: b.commit, Created: b.created}, file); err != nil {
			return nil, err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		programs[arch] = data
	}
	return image.Assemble(programs, b.version, b.created)
}

func ofArchitecture(index v1.ImageIndex, arch string) (v1.Image, error) {
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, m := range manifest.Manifests {
		if m.Platform.Architecture == arch {
			return index.Image(m.Digest)
		}
	}
	return nil, fmt.Errorf("no image for %s", arch)
}

// buildah runs buildah with a storage of its own.
func (b *builder) buildah(ctx context.Context, args ...string) (string, error) {
	return output(ctx, "buildah", append([]string{
		"--storage-driver", "vfs", "--root", filepath.Join(b.work, "storage"), "--runroot", filepath.Join(b.work, "run"),
	}, args...)...)
}

// lastCommit is the last commit and its time.
func lastCommit(ctx context.Context) (commit string, created time.Time, err error) {
	if commit, err = output(ctx, "git", "rev-parse", "HEAD"); err != nil {
		return "", time.Time{}, err
	}
	text, err := output(ctx, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return "", time.Time{}, err
	}
	var seconds int64
	if _, err := fmt.Sscan(text, &seconds); err != nil {
		return "", time.Time{}, fmt.Errorf("time %q of the last commit: %w", text, err)
	}
	return commit, time.Unix(seconds, 0).UTC(), nil
}

// output runs a command and returns what it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}
