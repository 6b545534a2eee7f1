// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A probe is a file or a command that exists when the package is there.
type probe struct {
	command string
	files   []string // glob patterns; one match is enough
	static  bool     // only a file that needs no dynamic loader counts
}

// known returns how the presence of each package is seen.
func known() map[string]probe {
	return map[string]probe{
		"bash-static":     {files: []string{"/bin/bash-static", "/usr/bin/bash-static"}, static: true},
		"busybox-static":  {files: []string{"/bin/busybox", "/usr/bin/busybox"}, static: true}, // the package busybox is not
		"buildah":         {command: "buildah"},
		"ca-certificates": {files: []string{"/etc/ssl/certs/ca-certificates.crt"}},
		"e2fsprogs":       {command: "mkfs.ext4"},
		"gcc":             {command: "gcc"},
		"iproute2":        {command: "ip"},
		"iptables":        {command: "iptables"},
		"libc6-dev":       {files: []string{"/usr/lib/*/libc.a", "/usr/lib*/libc.a"}},
		"libseccomp-dev":  {files: []string{"/usr/lib/*/libseccomp.a", "/usr/lib*/libseccomp.a"}},
		"make":            {command: "make"},
		"mmdebstrap":      {command: "mmdebstrap"},
		"mount":           {command: "umount"},
		"openssh-server":  {command: "sshd"},
		"pkg-config":      {command: "pkg-config"},
		"qemu-system-x86": {command: "qemu-system-x86_64"},
		"sudo":            {command: "sudo"},
		"tinyproxy-bin":   {command: "tinyproxy"},
		"util-linux":      {command: "nsenter"},
	}
}

// Missing returns those of the packages that are not there, sorted. An unknown name is an error of the caller.
func Missing(packages []string) ([]string, error) {
	var missing []string
	for _, name := range packages {
		p, ok := known()[name]
		if !ok {
			return nil, fmt.Errorf("system package %q has no probe", name)
		}
		if !p.present() {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing), nil
}

func (p probe) present() bool {
	if p.command != "" {
		// The system folders are not on every user's PATH.
		for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
			if info, err := os.Stat(filepath.Join(dir, p.command)); err == nil && info.Mode().IsRegular() {
				return true
			}
		}
		return false
	}
	return slices.ContainsFunc(p.files, func(pattern string) bool {
		matches, err := filepath.Glob(pattern)
		return err == nil && slices.ContainsFunc(matches, func(name string) bool { return !p.static || isStatic(name) })
	})
}

func isStatic(name string) bool {
	f, err := elf.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	return !slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// Ensure installs the packages that are missing. Progress and apt-get's output go to out. The error of a machine where it
// cannot install names the packages, so that somebody else can.
func Ensure(ctx context.Context, packages []string, out io.Writer) error {
	missing, err := Missing(packages)
	if err != nil || len(missing) == 0 {
		return err
	}
	list := strings.Join(missing, " ")
	aptGet, err := exec.LookPath("apt-get")
	if err != nil {
		return fmt.Errorf("system packages are missing and this is no Debian: install what Debian calls %s", list)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("system packages are missing: run as root, or first apt-get install %s", list)
	}

	fmt.Fprintf(out, "installing system packages: %s\n", list)
	apt := func(args ...string) error {
		// Another apt-get may be at work on the machine.
		cmd := exec.CommandContext(ctx, aptGet, append([]string{"-q", "-o", "DPkg::Lock::Timeout=300"}, args...)...)
		// In that run level no server is started because it was installed.
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1")
		cmd.Stdout, cmd.Stderr = out, out
		return cmd.Run()
	}
	// A fresh machine has no package lists, or stale ones.
	if err := apt("update"); err != nil {
		return fmt.Errorf("updating the package lists to install %s: %w", list, err)
	}
	if err := apt(append([]string{"install", "--yes", "--no-install-recommends"}, missing...)...); err != nil {
		return fmt.Errorf("installing system packages %s: %w", list, err)
	}
	if still, err := Missing(missing); err != nil || len(still) > 0 {
		return errors.Join(err, fmt.Errorf("system packages installed but not found: %s", strings.Join(still, " ")))
	}
	return nil
}
