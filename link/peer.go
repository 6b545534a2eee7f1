// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
)

// PeerCertificates returns the certificates that the host behind tls:// shows, its own first, and the name that it must be for.
// Nothing of them is verified: they are for telling people what is wrong. Nothing is sent on the connection.
func PeerCertificates(ctx context.Context, target Target, files Files, serverName string) (shown []*x509.Certificate, name string, err error) {
	if target.Scheme != SchemeTLS {
		return nil, "", fmt.Errorf("target %s shows no certificates: %w", target, errdefs.ErrInvalidArgument)
	}
	certificates, err := LoadCertificates(files, nil)
	if err != nil {
		return nil, "", err
	}
	serverName, err = target.serverName(serverName)
	if err != nil {
		return nil, "", err
	}
	raw, err := dialTCP(ctx, target.Address)
	if err != nil {
		return nil, "", err
	}
	config := certificates.clientConfig(serverName)
	config.InsecureSkipVerify = true // the certificate is looked at, not believed
	secured := tls.Client(raw, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, "", errors.Join(err, raw.Close())
	}
	return secured.ConnectionState().PeerCertificates, serverName, secured.Close()
}
