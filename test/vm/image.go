// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bufio"
	"context"
	"crypto/sha256"
	_ "embed" // the scripts
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

//go:embed image/build.sh
var buildScript string

//go:embed image/init.sh
var initScript string

// packages are those that the machine has beside Debian's essential ones. Of a host's own there are none: containerd and the
// rest are parts.
func packages() []string {
	return []string{
		"systemd-sysv", "dbus", "apparmor", "kmod", "iproute2", "iptables", "mount", "openssh-server", "procps", "util-linux",
	}
}

// image is what a machine boots.
type image struct{ dir string }

func (i image) disk() string   { return filepath.Join(i.dir, "disk.ext4") }
func (i image) kernel() string { return filepath.Join(i.dir, "vmlinuz") }
func (i image) initrd() string { return filepath.Join(i.dir, "initrd") }

// imageKey names what an image is made of.
func imageKey(suite, arch string) string {
	h := sha256.New()
	for _, field := range []string{suite, arch, strings.Join(packages(), ","), buildScript, initScript} {
		fmt.Fprintf(h, "%d:%s", len(field), field)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// buildTimeout bounds the making of an image. It takes two or three minutes on an idle machine.
const buildTimeout = 30 * time.Minute

// provideImage returns the image in the cache folder and makes it unless it is there. Each step is a line in log.
func provideImage(ctx context.Context, cache string, log io.Writer) (image, error) {
	suite, files, err := sources("/")
	if err != nil {
		return image{}, fmt.Errorf("making the image of the virtual machine: %w", err)
	}
	img := image{dir: filepath.Join(cache, "vm", imageKey(suite, runtime.GOARCH))}
	if _, err := os.Stat(img.dir); err == nil {
		return img, nil
	}
	for _, dir := range []string{filepath.Dir(img.dir), filepath.Join(cache, "logs")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return image{}, fmt.Errorf("making the image of the virtual machine: %w", err)
		}
	}
	// A temporary name and a rename: an image that exists is whole, whoever made it.
	work, err := os.MkdirTemp(filepath.Dir(img.dir), filepath.Base(img.dir)+".*.part")
	if err != nil {
		return image{}, fmt.Errorf("making the image of the virtual machine: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return image{}, fmt.Errorf("making the image of the virtual machine: %w", err)
	}
	if err := build(ctx, work, filepath.Join(cache, "logs", "vm-image.log"), suite, files, log); err != nil {
		return image{}, fmt.Errorf("making the image of the virtual machine: %w", err)
	}
	if err := os.Rename(work, img.dir); err != nil && !errors.Is(err, os.ErrExist) {
		return image{}, fmt.Errorf("making the image of the virtual machine: %w", err)
	}
	return img, nil
}

// build runs the script in namespaces of its own: what it mounts and starts ends with it, however it ends.
func build(ctx context.Context, work, logFile, suite string, files []string, progress io.Writer) error {
	begin := time.Now()
	scripts := map[string]string{"build.sh": buildScript, "init.sh": initScript}
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	log, err := os.Create(logFile)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "unshare", append([]string{
		"--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc",
		"sh", filepath.Join(work, "build.sh"), work, suite, strings.Join(packages(), ","), filepath.Join(work, "init.sh"),
	}, files...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = log
	steps, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for scanner := bufio.NewScanner(steps); scanner.Scan(); {
		fmt.Fprintf(progress, "virtual machine: %s (%.0f s)\n", scanner.Text(), time.Since(begin).Seconds())
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("%w, log: %s, last lines:\n%s", errors.Join(err, context.Cause(ctx)), logFile, tail(logFile, 15))
	}
	for name := range scripts {
		if err := os.Remove(filepath.Join(work, name)); err != nil {
			return err
		}
	}
	fmt.Fprintf(progress, "virtual machine: made (%.0f s)\n", time.Since(begin).Seconds())
	return nil
}

// tail returns the last n lines of a file.
func tail(name string, n int) string {
	data, err := os.ReadFile(name)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
