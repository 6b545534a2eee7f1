// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// Identity says with what to log in. Files are read again for each connection.
type Identity struct {
	// KeyFile is a private key, CertFile an OpenSSH certificate of it if there is one.
	KeyFile  string
	CertFile string
	// AgentSocket is the socket of an agent that has the key, instead of KeyFile.
	AgentSocket string
}

// credential is an Identity that was read.
type credential struct {
	signers []ssh.Signer
	// source says in errors where they are from.
	source string
	close  func()
}

// read returns the keys. Those of an agent can be used until ctx ends, or close is called.
func (i Identity) read(ctx context.Context) (*credential, error) {
	if i.AgentSocket != "" {
		return i.ask(ctx)
	}
	data, err := os.ReadFile(i.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the key of --host-ssh-key-file: %w", err)
	}
	signer, err := ssh.ParsePrivateKey(data)
	if missing := (*ssh.PassphraseMissingError)(nil); errors.As(err, &missing) {
		return nil, fmt.Errorf("key %s has a passphrase, which nobody is here to type: use an agent, or a key without one: %w", i.KeyFile, errdefs.ErrInvalidArgument)
	}
	if err != nil {
		return nil, fmt.Errorf("key %s is no private key as ssh-keygen makes them: %w: %w", i.KeyFile, err, errdefs.ErrInvalidArgument)
	}
	c := &credential{signers: []ssh.Signer{signer}, source: i.KeyFile, close: func() {}}
	if i.CertFile == "" {
		return c, nil
	}
	certified, err := certify(signer, i.CertFile)
	if err != nil {
		return nil, err
	}
	c.signers, c.source = []ssh.Signer{certified}, i.CertFile
	return c, nil
}

// certify lets a key show its certificate.
func certify(signer ssh.Signer, file string) (ssh.Signer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of --host-ssh-cert-file: %w", err)
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil, fmt.Errorf("certificate %s is not one of OpenSSH: %w: %w", file, err, errdefs.ErrInvalidArgument)
	}
	certificate, ok := public.(*ssh.Certificate)
	if !ok {
		return nil, fmt.Errorf("%s is a key and no certificate: give the file that ends with -cert.pub: %w", file, errdefs.ErrInvalidArgument)
	}
	if !bytes.Equal(certificate.Key.Marshal(), signer.PublicKey().Marshal()) {
		return nil, fmt.Errorf("certificate %s is of another key: %w", file, errdefs.ErrInvalidArgument)
	}
	return ssh.NewCertSigner(certificate, signer)
}

// ask gets the keys of an agent. Its connection stays open, for the agent signs.
func (i Identity) ask(ctx context.Context) (*credential, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", i.AgentSocket)
	if err != nil {
		return nil, fmt.Errorf("asking the agent of --host-ssh-agent: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c := &credential{source: "the agent at " + i.AgentSocket, close: func() {
		stop()
		_ = conn.Close()
	}}
	if c.signers, err = agent.NewClient(conn).Signers(); err == nil && len(c.signers) == 0 {
		err = errors.New("it has no key: add one with ssh-add")
	}
	if err != nil {
		c.close()
		return nil, fmt.Errorf("asking %s: %w", c.source, err)
	}
	return c, nil
}

// describe names the keys.
func (c *credential) describe() string {
	var keys []string
	for _, signer := range c.signers {
		key, kind := signer.PublicKey(), "key"
		if certificate, ok := key.(*ssh.Certificate); ok {
			kind, key = fmt.Sprintf("certificate %q of the key", certificate.KeyId), certificate.Key
		}
		keys = append(keys, kind+" "+ssh.FingerprintSHA256(key))
	}
	return strings.Join(keys, ", ") + " of " + c.source
}

// remedy says what the owner of the host has to do.
func (c *credential) remedy() string {
	if certificate, ok := c.signers[0].PublicKey().(*ssh.Certificate); ok {
		return fmt.Sprintf("its authority must be in TrustedUserCAKeys of sshd_config, the user among its principals %v, and it must be valid now", certificate.ValidPrincipals)
	}
	return "its public key must be in ~/.ssh/authorized_keys there"
}
