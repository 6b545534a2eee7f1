// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// loginTimeout is how long a connection may take to be made.
const loginTimeout = 60 * time.Second

// login is how root gets onto a machine: each of the two knows the other by its key.
type login struct {
	address netip.Addr
	user    ssh.Signer
	host    ssh.PublicKey
}

// newLogin makes the keys of a machine and the files that it needs of them.
func newLogin(address netip.Addr) (login, []File, error) {
	user, _, err := newKey()
	if err != nil {
		return login{}, nil, err
	}
	host, hostPEM, err := newKey()
	if err != nil {
		return login{}, nil, err
	}
	return login{address: address, user: user, host: host.PublicKey()}, []File{
		{Path: "/etc/ssh/ssh_host_ed25519_key", Mode: 0o600, Data: hostPEM},
		{Path: "/etc/ssh/sshd_config.d/vm.conf", Data: "HostKey /etc/ssh/ssh_host_ed25519_key\nUsePAM no\nUseDNS no\n"},
		{Path: "/root/.ssh/authorized_keys", Mode: 0o600, Data: string(ssh.MarshalAuthorizedKey(user.PublicKey()))},
	}, nil
}

func newKey() (ssh.Signer, string, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("making a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, "", fmt.Errorf("making a key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return nil, "", fmt.Errorf("making a key: %w", err)
	}
	return signer, string(pem.EncodeToMemory(block)), nil
}

// connect makes a connection.
func (l login) connect(ctx context.Context) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	address := net.JoinHostPort(l.address.String(), "22")
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connecting to the machine: %w", err)
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	secure, channels, requests, err := ssh.NewClientConn(conn, address, &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(l.user)}, HostKeyCallback: ssh.FixedHostKey(l.host),
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("logging in to the machine: %w", err)
	}
	return ssh.NewClient(secure, channels, requests), nil
}

// Run runs a script of the shell as root on the machine and returns what it wrote to standard output; the error has what it
// wrote to standard error.
func (m *Machine) Run(ctx context.Context, script string) (string, error) {
	return m.run(ctx, script, nil)
}

// Put writes a file that has Data onto the machine.
func (m *Machine) Put(ctx context.Context, f File) error {
	_, err := m.run(ctx, fmt.Sprintf("install -D -m %o /dev/stdin %s", f.mode(), f.Path), strings.NewReader(f.Data))
	return err
}

func (m *Machine) run(ctx context.Context, script string, stdin io.Reader) (string, error) {
	session, err := m.session(ctx)
	if err != nil {
		return "", err
	}
	defer session.Close()
	defer context.AfterFunc(ctx, func() { session.Close() })()
	var stdout, stderr bytes.Buffer
	session.Stdin, session.Stdout, session.Stderr = stdin, &stdout, &stderr
	if err := session.Run(script); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return stdout.String(), fmt.Errorf("running %q on %s: %w: %s", script, m.name, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

// session begins a session on the one connection, which is made again if it is broken.
func (m *Machine) session(ctx context.Context) (*ssh.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client != nil {
		if session, err := m.client.NewSession(); err == nil {
			return session, nil
		}
		m.client.Close()
		m.client = nil
	}
	client, err := m.login.connect(ctx)
	if err != nil {
		return nil, err
	}
	m.client = client
	return client.NewSession()
}

// drop ends the connection.
func (m *Machine) drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.client != nil {
		m.client.Close()
		m.client = nil
	}
}
