// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"

	"github.com/containerd/errdefs"
)

const pemRequest = "CERTIFICATE REQUEST"

// NewKey makes a key, in PEM.
func NewKey() ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return encodeKey(key)
}

// NewRequest asks for a certificate for a key. The name may be empty: it is for who issues to choose or to compare.
func NewRequest(keyPEM []byte, name string) (requestPEM []byte, err error) {
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, fmt.Errorf("making a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: der}), nil
}

// ParseRequest reads a request and proves that who made it has the key. An error is InvalidArgument.
func ParseRequest(requestPEM []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(requestPEM)
	if block == nil || block.Type != pemRequest {
		return nil, fmt.Errorf("no PEM block %q in the request: %w", pemRequest, errdefs.ErrInvalidArgument)
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the request: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	// First the kind of key: the signature of a huge one takes long to check.
	if key, ok := request.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("the key of the request is not an ECDSA P-256 one: %w", errdefs.ErrInvalidArgument)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("checking the request: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	return request, nil
}

// SignHost makes the certificate of a host for the key of its request. Of the request nothing else counts.
func (a *Authority) SignHost(name string, request *x509.CertificateRequest, life Lifetime) (*x509.Certificate, error) {
	key, ok := request.PublicKey.(*ecdsa.PublicKey)
	if !ok {
		return nil, fmt.Errorf("the key of the request is a %T: %w", request.PublicKey, errdefs.ErrInvalidArgument)
	}
	template, err := hostTemplate(name, nil, life)
	if err != nil {
		return nil, err
	}
	if err := a.outlives(template); err != nil {
		return nil, err
	}
	return create(template, a.cert, key, a.key)
}

// Certificate is the authority's own.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// EncodeCertificate is a certificate in PEM.
func EncodeCertificate(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: pemCertificate, Bytes: cert.Raw})
}
