// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/link/join"
	"github.com/tombolo-dev/tombolo/link/reverse"
)

// On a reverse link the host begins the handshake, but it is still the host that serves and the node that calls. So a host's
// certificate is one for serving and a node's one for calling on every kind of link, and neither end could pass for the other.

// newReverse listens for the host.
func newReverse(o Options, t *tracker) (*reverse.Acceptor, error) {
	listener, err := Listen(context.Background(), o.Listen)
	if err != nil {
		return nil, fmt.Errorf("listening for the host on %s: %w", o.Listen, err)
	}
	t.trying = "waiting for " + t.target
	t.note(fmt.Errorf("the host has not connected to %s yet (tombolo host --connect)", listener.Addr()))
	options := reverse.Options{
		Listener: listener, Name: o.Target.Address, TLS: o.Certificates.acceptConfig(o.Desk), Explain: o.Certificates.explainHost,
		Refused: t.refused, Logger: o.Logger, Registerer: o.Registerer,
	}
	if o.Desk != nil {
		options.Check, options.Others = o.Desk.Check, map[string]func(context.Context, *tls.Conn){join.Protocol: o.Desk.Serve}
	}
	return reverse.Listen(options), nil
}

// acceptConfig is for the node's end of handshakes that hosts begin. A host's name is not looked at. With a desk, those that want to
// join may do so without a certificate.
func (c *Certificates) acceptConfig(desk *join.Desk) *tls.Config {
	base := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{reverse.Protocol},
		ClientAuth:             tls.RequireAnyClientCert, // it is verified below, as one for serving
		SessionTicketsDisabled: true,
	}
	config := base.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		id := c.current()
		each := base.Clone()
		each.Certificates = []tls.Certificate{id.certificate}
		each.VerifyConnection = reverse.VerifyPeer(reverse.Protocol, x509.ExtKeyUsageServerAuth, id.authorities)
		if desk == nil || !slices.Contains(hello.SupportedProtos, join.Protocol) {
			return each, nil
		}
		verify := reverse.VerifyPeer(join.Protocol, x509.ExtKeyUsageServerAuth, id.authorities)
		each.NextProtos, each.ClientAuth, each.Certificates = []string{join.Protocol}, tls.RequestClientCert, []tls.Certificate{desk.Introduce(id.certificate)}
		each.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return nil // it has a token, or gets nothing
			}
			return verify(state)
		}
		return each, nil
	}
	return config
}

// hostConfig is for the host's end of one handshake that it begins with one of those nodes. The name is not that of a certificate, but
// lets what is in between find the way.
func (c *Certificates) hostConfig(protocol, serverName string, nodes Nodes) *tls.Config {
	id := c.current()
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{protocol},
		ServerName:         serverName,
		Certificates:       []tls.Certificate{id.certificate},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection verifies it, as one for calling
		VerifyConnection:   nodes.also(reverse.VerifyPeer(protocol, x509.ExtKeyUsageClientAuth, id.authorities)),
	}
}

// explainHost says why the handshake with a host failed, and what to do about its certificate.
func (c *Certificates) explainHost(err error) string {
	why := refusal(err)
	switch {
	case isUnverified(err):
		why += fmt.Sprintf(" (a host must show one of the authority in %s, made with: tombolo pki host)", called(c.files.Names.CA, c.files.CAFile))
	case isAlert(err):
		why += fmt.Sprintf(" (the host does not want to talk to this node; does its --client-ca-file have the authority of %s? and its --node-name, if it is given, the name in there?)", called(c.files.Names.Cert, c.files.CertFile))
	}
	return why
}

// explainNode does the same for the handshake with a node.
func (c *Certificates) explainNode(err error) error {
	switch {
	case isUnverified(err):
		return fmt.Errorf("%s (a node must show one of the authority in %s, made with: tombolo pki node)", refusal(err), called(c.files.Names.CA, c.files.CAFile))
	case isAlert(err):
		return fmt.Errorf("%w (is it the --listen of tombolo node --host reverse://…?)", err)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("%w: the connection was closed before it was secured (does the node run, behind what is in between?)", err)
	}
	return errors.New(refusal(err))
}

// explainGreeting says why a node did not greet. With TLS 1.3 that is where a refused certificate shows.
func (c *Certificates) explainGreeting(err error) error {
	if isAlert(err) {
		return fmt.Errorf("the node refused our certificate: %w (is %s of the authority in its --host-ca-file, and valid? its log says more)", err, called(c.files.Names.Cert, c.files.CertFile))
	}
	return err
}

func isUnverified(err error) bool {
	unverified := (*tls.CertificateVerificationError)(nil)
	return errors.As(err, &unverified)
}

// CheckConnect says what is wrong with the address of a node, as InvalidArgument.
func CheckConnect(address string) error {
	if _, err := ParseTarget(SchemeTLS + "://" + address); err != nil {
		return fmt.Errorf("%q: give host:port of the node, with a port from 1 to 65535: %w", address, errdefs.ErrInvalidArgument)
	}
	return nil
}
