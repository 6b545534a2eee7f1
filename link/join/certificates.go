// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/link/pki"
)

// errRevoked is why a certificate is not good although the authority issued it.
var errRevoked = fmt.Errorf("the certificate was revoked, or its record is lost: %w", errdefs.ErrPermissionDenied)

// errOtherName is why a host does not get a certificate.
var errOtherName = errors.New("the host asks for another name")

func serialOf(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// Check says whether a certificate is one that is good. PermissionDenied if it is not.
func (l *Ledger) Check(cert *x509.Certificate) error {
	content, err := l.Read()
	if err != nil {
		return err
	}
	return content.check(cert)
}

func (c *Content) check(cert *x509.Certificate) error {
	serial := serialOf(cert)
	if slices.ContainsFunc(c.Certificates, func(r CertificateRecord) bool { return r.Serial == serial }) {
		return nil
	}
	return fmt.Errorf("certificate %s of the host: %w: join again with a new token (tombolo token create)", serial, errRevoked)
}

// Revoke makes every certificate of the host bad, and every token that was not used yet. It returns how many of each.
func (l *Ledger) Revoke() (certificates, tokens int, err error) {
	err = l.change(func(c *Content, now time.Time) error {
		certificates = len(c.Certificates)
		c.Certificates = nil
		c.Tokens = slices.DeleteFunc(c.Tokens, func(t TokenRecord) bool {
			if t.Used.IsZero() && !now.After(t.Expires) {
				tokens++
				return true
			}
			return false
		})
		return nil
	})
	return certificates, tokens, err
}

// issue signs what a host asks for once allow has no objection, and makes it good.
func (l *Ledger) issue(request []byte, validity time.Duration, allow func(*Content, time.Time) (by string, err error)) (*x509.Certificate, error) {
	asked, err := pki.ParseRequest(request)
	if err != nil {
		return nil, err
	}
	authority, err := l.authority()
	if err != nil {
		return nil, err
	}
	var cert *x509.Certificate
	return cert, l.change(func(c *Content, now time.Time) error {
		if name := asked.Subject.CommonName; name != "" && name != c.Host {
			return fmt.Errorf("%w: it is for %q, and this node is for %q: %w", errOtherName, name, c.Host, errdefs.ErrPermissionDenied)
		}
		by, err := allow(c, now)
		if err != nil {
			return err
		}
		signed, err := authority.SignHost(c.Host, asked, pki.Lifetime{From: now, Validity: validity})
		if err != nil {
			return err
		}
		cert = signed
		c.Certificates = append(c.Certificates, CertificateRecord{Serial: serialOf(cert), Issued: now, NotAfter: cert.NotAfter, By: by})
		return nil
	})
}
