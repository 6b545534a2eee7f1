// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// VerifyPeer verifies that the other end speaks a protocol and shows a certificate of the authorities for a usage, whatever end
// of the handshake it is.
func VerifyPeer(protocol string, usage x509.ExtKeyUsage, authorities *x509.CertPool) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if state.NegotiatedProtocol != protocol {
			return errors.New("the peer does not name the protocol " + protocol)
		}
		chain := state.PeerCertificates
		if len(chain) == 0 {
			return errors.New("the peer shows no certificate")
		}
		intermediates := x509.NewCertPool()
		for _, cert := range chain[1:] {
			intermediates.AddCert(cert)
		}
		options := x509.VerifyOptions{Roots: authorities, Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{usage}}
		if _, err := chain[0].Verify(options); err != nil {
			return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
		}
		return nil
	}
}
