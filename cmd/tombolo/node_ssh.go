// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/tombolo-dev/tombolo/link/sshlink"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
)

// sshOptions are the flags for a host behind ssh://.
type sshOptions struct {
	knownHosts []string
	hostKeys   []string
	keyFile    string
	certFile   string
	agent      string
	jumps      []string
	binaryDir  string
	cacheDir   string
	sudo       bool
	containerd string
	policy     string
}

func (o *sshOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.knownHosts, "host-ssh-known-hosts", nil, "files in the format of OpenSSH's known_hosts that have the key of the host, and of each jump host (ssh://)")
	fs.StringSliceVar(&o.hostKeys, "host-ssh-host-key", nil, "key of the host instead, a fingerprint (SHA256:...) or a public key (ssh-ed25519 AAAA...) (ssh://)")
	fs.StringVar(&o.keyFile, "host-ssh-key-file", "", "private key to log in with (ssh://)")
	fs.StringVar(&o.certFile, "host-ssh-cert-file", "", "OpenSSH certificate of that key, if there is one (ssh://)")
	fs.StringVar(&o.agent, "host-ssh-agent", "", "socket of an agent that has the key, instead of --host-ssh-key-file (ssh://)")
	fs.StringSliceVar(&o.jumps, "host-ssh-jump", nil, "jump hosts on the way, user@host[:port] separated by commas, the nearest one first (ssh://)")
	fs.StringVar(&o.binaryDir, "host-ssh-binary-dir", "", "directory with tombolo-linux-ARCH for hosts of other architectures than this process (ssh://)")
	fs.StringVar(&o.cacheDir, "host-ssh-cache-dir", sshlink.DefaultCacheDir, "directory on the host where tombolo is put (ssh://)")
	fs.BoolVar(&o.sudo, "host-ssh-sudo", false, "become root on the host by sudo, which must not ask for a password (ssh://)")
	fs.StringVar(&o.containerd, "host-containerd", defaultContainerdSocket, "socket of containerd on the host (ssh://)")
	fs.StringVar(&o.policy, "host-policy", "", "file on the host that says what pods may do to it (ssh://)")
}

// validate finds what is wrong with the flags, which are for a host behind ssh://.
func (o *sshOptions) validate(verbosity int) (hostconn.SSH, []error) {
	s := hostconn.SSH{
		HostKeys:  sshlink.HostKeys{KnownFiles: o.knownHosts, Pinned: o.hostKeys},
		Identity:  sshlink.Identity{KeyFile: o.keyFile, CertFile: o.certFile, AgentSocket: o.agent},
		BinaryDir: o.binaryDir, CacheDir: o.cacheDir, Sudo: o.sudo, Containerd: o.containerd, Policy: o.policy, Verbosity: verbosity,
	}
	var problems []error
	add := func(err error) { problems = append(problems, err) }
	if len(o.knownHosts) == 0 && len(o.hostKeys) == 0 {
		add(errors.New("--host-ssh-known-hosts is empty, and so is --host-ssh-host-key: give a file with the host's key (ssh-keyscan writes one, compare it with the host's own), or its fingerprint"))
	}
	for _, text := range o.hostKeys {
		if _, err := sshlink.ParsePinnedKey(text); err != nil {
			add(fmt.Errorf("--host-ssh-host-key: %w", err))
		}
	}
	switch {
	case o.keyFile == "" && o.agent == "":
		add(errors.New("--host-ssh-key-file is empty, and so is --host-ssh-agent: give one of them to log in with"))
	case o.keyFile != "" && o.agent != "":
		add(errors.New("--host-ssh-key-file and --host-ssh-agent are both given: leave one of them out"))
	case o.keyFile == "" && o.certFile != "":
		add(errors.New("--host-ssh-cert-file belongs to --host-ssh-key-file, and an agent has its own certificates: leave it out"))
	}
	for _, text := range o.jumps {
		jump, err := sshlink.ParseAddress(text)
		if err != nil {
			add(fmt.Errorf("--host-ssh-jump: %w", err))
		}
		s.Jumps = append(s.Jumps, jump)
	}
	if len(o.jumps) > 0 && len(o.knownHosts) == 0 && len(o.hostKeys) > 0 {
		add(errors.New("--host-ssh-known-hosts is empty, and the key of each --host-ssh-jump must be in it"))
	}
	if err := sshlink.CheckCacheDir(o.cacheDir); err != nil {
		add(fmt.Errorf("--host-ssh-cache-dir: %w", err))
	}
	if !filepath.IsAbs(o.containerd) {
		add(fmt.Errorf("--host-containerd %q: give an absolute path", o.containerd))
	}
	if o.policy != "" && !filepath.IsAbs(o.policy) {
		add(fmt.Errorf("--host-policy %q: give an absolute path, of a file on the host", o.policy))
	}
	return s, problems
}

// unused finds flags that are given although the host is not behind ssh://.
func (o *sshOptions) unused(host string) (problems []error) {
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"known-hosts", len(o.knownHosts) > 0}, {"host-key", len(o.hostKeys) > 0}, {"key-file", o.keyFile != ""},
		{"cert-file", o.certFile != ""}, {"agent", o.agent != ""}, {"jump", len(o.jumps) > 0}, {"binary-dir", o.binaryDir != ""},
		{"cache-dir", o.cacheDir != sshlink.DefaultCacheDir}, {"sudo", o.sudo},
	} {
		if flag.given {
			problems = append(problems, fmt.Errorf("--host-ssh-%s is for a host behind ssh://, and --host is %s: leave it out", flag.name, host))
		}
	}
	if o.containerd != defaultContainerdSocket {
		problems = append(problems, fmt.Errorf("--host-containerd is for a host behind ssh://, and --host is %s: leave it out", host))
	}
	if o.policy != "" {
		problems = append(problems, fmt.Errorf("--host-policy is for a host behind ssh://, and --host is %s: leave it out", host))
	}
	return problems
}
