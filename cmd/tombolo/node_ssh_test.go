// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/sshlink"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
)

const somePrint = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"

func TestSSHFlagsAmountToSettings(t *testing.T) {
	got, err := parseNode(t, "--host=ssh://root@edge", "--host-ssh-known-hosts=k1,k2", "--host-ssh-key-file=id", "--host-ssh-cert-file=id-cert.pub",
		"--host-ssh-jump=a@b,c@[::1]:9", "--host-ssh-sudo", "--host-ssh-binary-dir=bins", "--host-containerd=/c.sock", "--host-policy=/p", "-v=4").validate()
	if err != nil {
		t.Fatal(err)
	}
	if want := (link.Target{Scheme: link.SchemeSSH, Address: "root@edge:22"}); got.target != want {
		t.Errorf("target %+v", got.target)
	}
	want := hostconn.SSH{
		Jumps:     []sshlink.Address{{User: "a", Host: "b", Port: "22"}, {User: "c", Host: "::1", Port: "9"}},
		HostKeys:  sshlink.HostKeys{KnownFiles: []string{"k1", "k2"}},
		Identity:  sshlink.Identity{KeyFile: "id", CertFile: "id-cert.pub"},
		BinaryDir: "bins", CacheDir: "~/.cache/tombolo", Sudo: true, Containerd: "/c.sock", Policy: "/p", Verbosity: 4,
	}
	if d := cmp.Diff(want, got.ssh); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestWrongSSHFlagsAreNamed(t *testing.T) {
	right := []string{"--host=ssh://root@edge", "--host-ssh-host-key=" + somePrint, "--host-ssh-agent=/agent"}
	if _, err := parseNode(t, right...).validate(); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no user":               {[]string{"--host=ssh://edge"}, "use user@host"},
		"a password":            {[]string{"--host=ssh://me:secret@edge"}, "there is a password"},
		"a broken fingerprint":  {[]string{"--host-ssh-host-key=SHA256:x"}, "--host-ssh-host-key: "},
		"no key":                {[]string{"--host-ssh-agent="}, "--host-ssh-key-file is empty, and so is --host-ssh-agent"},
		"key and agent":         {[]string{"--host-ssh-key-file=k"}, "--host-ssh-key-file and --host-ssh-agent"},
		"certificate and agent": {[]string{"--host-ssh-cert-file=c"}, "--host-ssh-cert-file belongs to"},
		"a jump host":           {[]string{"--host-ssh-jump=b", "--host-ssh-known-hosts=k"}, `--host-ssh-jump: "b": use user@host`},
		"unknown jump host":     {[]string{"--host-ssh-jump=a@b"}, "the key of each --host-ssh-jump"},
		"cache":                 {[]string{"--host-ssh-cache-dir=here"}, "--host-ssh-cache-dir: "},
		"containerd":            {[]string{"--host-containerd=here"}, `--host-containerd "here"`},
		"policy":                {[]string{"--host-policy=here"}, `--host-policy "here"`},
		"root":                  {[]string{"--root-dir=here"}, `--root-dir "here"`},
		"tls":                   {[]string{"--host-ca-file=ca"}, "--host-ca-file is for a host behind tls://"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseNode(t, append(right, tc.args...)...).validate()
			var usage usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "secret") {
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestHostKeyMustBeGiven(t *testing.T) {
	_, err := parseNode(t, "--host=ssh://root@edge", "--host-ssh-agent=/agent").validate()
	if err == nil || !strings.Contains(err.Error(), "--host-ssh-known-hosts is empty, and so is --host-ssh-host-key") || strings.Contains(err.Error(), "\n") {
		t.Errorf("error = %v", err)
	}
}

func TestSSHFlagsAreForSSHOnly(t *testing.T) {
	args := []string{
		"--host-ssh-known-hosts=k", "--host-ssh-host-key=" + somePrint, "--host-ssh-key-file=k", "--host-ssh-cert-file=c", "--host-ssh-agent=/a",
		"--host-ssh-jump=a@b", "--host-ssh-binary-dir=d", "--host-ssh-cache-dir=/c", "--host-ssh-sudo", "--host-containerd=/c", "--host-policy=/p",
	}
	for _, host := range []string{"unix:///c.sock", "tls://edge:1"} {
		_, err := parseNode(t, append(args, "--host="+host)...).validate()
		for _, arg := range args {
			flag, _, _ := strings.Cut(arg, "=")
			if err == nil || !strings.Contains(err.Error(), flag+" is for a host behind ssh://") {
				t.Errorf("%s with %s: %v", flag, host, err)
			}
		}
	}
}
