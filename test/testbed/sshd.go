// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// SSHUser is a user of a host with an SSH server who may become root by sudo without a password. SSHGuest is one who may not.
const (
	SSHUser  = "edge"
	SSHGuest = "guest"
)

// An SSHServer is OpenSSH's server on a host. root, SSHUser and SSHGuest may log in with the key.
type SSHServer struct {
	*Process
	// KeyFile is the private key, KnownHosts a file that has the key of the host.
	KeyFile    string
	KnownHosts string
	// AuthorityFile is the private key of the authority whose certificates log users in.
	AuthorityFile string
	// Fingerprint is that of the host's key, SHA256:...
	Fingerprint string

	host *Host
}

// sshConfig is the server's configuration. Keys are where other users can read them, which the state folder is not.
const sshConfig = `ListenAddress %s
HostKey /etc/ssh/testbed_host_key
AuthorizedKeysFile /etc/ssh/testbed_authorized_keys
TrustedUserCAKeys /etc/ssh/testbed_authority.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
LogLevel VERBOSE
`

// sshSetup makes what the server needs, with the configuration and the keys from the folder $1. What it writes is on the
// host only: /etc, /var and /run are its own.
const sshSetup = `set -e
mkdir -p /run/sshd
install -m 600 "$1/host_key" /etc/ssh/testbed_host_key
install -m 644 "$1/login_key.pub" /etc/ssh/testbed_authorized_keys
install -m 644 "$1/authority.pub" /etc/ssh/testbed_authority.pub
install -m 644 "$1/sshd_config" /etc/ssh/testbed_config
for user in ` + SSHUser + ` ` + SSHGuest + `; do
	useradd --create-home --home-dir /var/lib/$user --shell /bin/bash --password '*' $user
done
# sudo asks for the address of the host it runs on, and would wait for a server of names.
echo "127.0.1.1 $(hostname)" >> /etc/hosts
mkdir -p /etc/sudoers.d
echo '` + SSHUser + ` ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/testbed
chmod 440 /etc/sudoers.d/testbed
`

// StartSSH starts an SSH server on port 22 of the host.
func (h *Host) StartSSH(ctx context.Context) (*SSHServer, error) {
	dir := filepath.Join(h.Dir(), "ssh")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("starting sshd on %s: %w", h.name, err)
	}
	s := &SSHServer{
		host: h, KeyFile: filepath.Join(dir, "login_key"), KnownHosts: filepath.Join(dir, "known_hosts"),
		AuthorityFile: filepath.Join(dir, "authority"),
	}
	for _, key := range []string{"host_key", "login_key", "authority"} {
		if _, err := output(h.cluster.Command(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "testbed", "-f", filepath.Join(dir, key))); err != nil {
			return nil, fmt.Errorf("starting sshd on %s: %w", h.name, err)
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, "host_key.pub"))
	if err != nil {
		return nil, fmt.Errorf("starting sshd on %s: %w", h.name, err)
	}
	printed, err := output(h.cluster.Command(ctx, "ssh-keygen", "-lf", filepath.Join(dir, "host_key.pub")))
	if err != nil {
		return nil, fmt.Errorf("starting sshd on %s: %w", h.name, err)
	}
	s.Fingerprint = strings.Fields(printed)[1]
	for name, text := range map[string]string{
		"known_hosts": h.Address().String() + " " + string(public), "sshd_config": fmt.Sprintf(sshConfig, h.Address()),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("starting sshd on %s: %w", h.name, err)
		}
	}
	if _, err := h.Exec(ctx, "sh", "-c", sshSetup, "setup", dir); err != nil {
		return nil, fmt.Errorf("starting sshd on %s: %w", h.name, err)
	}
	return s, s.Start(ctx)
}

// Start starts the server again after it was killed, and waits until it answers.
func (s *SSHServer) Start(ctx context.Context) (err error) {
	s.Process, err = s.host.Run("sshd", s.host.Command(context.WithoutCancel(ctx), "/usr/sbin/sshd", "-D", "-e", "-f", "/etc/ssh/testbed_config"))
	if err != nil {
		return err
	}
	return s.host.awaitSSH(ctx, s.Process)
}

// awaitSSH waits until the server answers.
func (h *Host) awaitSSH(ctx context.Context, p *Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	answers := func() bool {
		// The address may have been another host's a moment ago, where the first tries still go.
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(h.Address().String(), "22"))
		if err != nil {
			return !p.record.alive()
		}
		return conn.Close() == nil
	}
	if err := poll(ctx, answers); err != nil || !p.record.alive() {
		return p.failure("does not answer")
	}
	return nil
}
