// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/tombolo-dev/tombolo/link/pki"
	"github.com/tombolo-dev/tombolo/link/safetext"
)

// askTimeout bounds asking, from the connection to the answer.
const askTimeout = 30 * time.Second

// Dial opens a connection to the node that nothing has been said on yet.
type Dial func(ctx context.Context) (net.Conn, error)

// Identity is what a host has after it joined, in PEM.
type Identity struct {
	Authority, Certificate, Key []byte
	// Name is that of the host, NotAfter the end of the certificate.
	Name     string
	NotAfter time.Time
}

// ErrRefused is that the node answered, and gave no certificate.
var ErrRefused = errors.New("the node refuses")

// Wish is what a host asks for.
type Wish struct {
	// Name is the one that the host expects to get; if it is empty, it takes the one it is given.
	Name string
	// Key is what the certificate is to be for, in PEM. Who asks again with the same key gets an answer that was lost.
	Key []byte
}

// Ask joins with a token. The server name lets what is in between find the way.
func Ask(ctx context.Context, dial Dial, serverName string, token Token, wish Wish) (*Identity, error) {
	config := &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{Protocol}, ServerName: serverName,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection believes the one authority that the token names
		VerifyConnection:   func(state tls.ConnectionState) error { return verifyByHash(state, token) },
	}
	return ask(ctx, dial, config, wish, question{TokenID: token.ID, Secret: token.secret[:]})
}

// Renew asks for another certificate, for another key, with one that is still good. The configuration shows it, and verifies the node's.
func Renew(ctx context.Context, dial Dial, config *tls.Config, name string) (*Identity, error) {
	key, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	return ask(ctx, dial, config, Wish{Name: name, Key: key}, question{})
}

// verifyByHash believes a node whose certificate, one for calling, comes from the authority that the token names.
func verifyByHash(state tls.ConnectionState, token Token) error {
	if state.NegotiatedProtocol != Protocol {
		return errors.New("the other end is no node that can be joined: does it run with --join-dir?")
	}
	chain := state.PeerCertificates
	for _, cert := range chain[1:] {
		if !cert.IsCA || hashOf(cert) != token.authority {
			continue
		}
		roots := x509.NewCertPool()
		roots.AddCert(cert)
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
		return err
	}
	return errors.New("the other end is not the node that made the token, nothing was sent to it: compare the address; is somebody in between?")
}

// ask sends a question.
func ask(ctx context.Context, dial Dial, config *tls.Config, wish Wish, asked question) (*Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := pki.NewRequest(wish.Key, wish.Name)
	if err != nil {
		return nil, err
	}
	asked.Request = request
	raw, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("securing the connection: %w", err)
	}
	if err := send(secured, asked); err != nil {
		return nil, fmt.Errorf("asking the node: %w", errors.Join(ctx.Err(), err))
	}
	var said answer
	if err := receive(secured, &said); err != nil {
		return nil, fmt.Errorf("waiting for the node's answer: %w", errors.Join(ctx.Err(), err))
	}
	if said.Refusal != "" {
		return nil, fmt.Errorf("%w: %s", ErrRefused, safetext.Printable(said.Refusal))
	}
	return newIdentity(said, wish)
}

// newIdentity checks that what the node gave belongs together.
func newIdentity(said answer, wish Wish) (*Identity, error) {
	if _, err := tls.X509KeyPair(said.Certificate, wish.Key); err != nil {
		return nil, fmt.Errorf("the node's answer is of no use: %w", err)
	}
	block, _ := pem.Decode(said.Certificate)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the node's answer is of no use: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(said.Authority) {
		return nil, errors.New("the node's answer is of no use: it has no authority")
	}
	// Not by this machine's clock: it is the node's that counts for the certificate.
	options := x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, CurrentTime: cert.NotAfter}
	if _, err := cert.Verify(options); err != nil {
		return nil, fmt.Errorf("the node's answer is of no use: %w", err)
	}
	if wish.Name != "" && cert.Subject.CommonName != wish.Name {
		return nil, fmt.Errorf("the node gave a certificate for %q and not for %q", cert.Subject.CommonName, wish.Name)
	}
	return &Identity{Authority: said.Authority, Certificate: said.Certificate, Key: wish.Key, Name: cert.Subject.CommonName, NotAfter: cert.NotAfter}, nil
}
