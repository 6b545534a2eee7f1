// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
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

// Check says whether a certificate is one that is good, and which host it is of. PermissionDenied if it is not.
func (l *Ledger) Check(cert *x509.Certificate) (lineage string, err error) {
	content, err := l.Read()
	if err != nil {
		return "", err
	}
	return content.check(cert)
}

func (c *Content) check(cert *x509.Certificate) (lineage string, err error) {
	serial := serialOf(cert)
	i := slices.IndexFunc(c.Certificates, func(r CertificateRecord) bool { return r.Serial == serial })
	if i < 0 {
		return "", fmt.Errorf("certificate %s of the host: %w: join again with a new token (tombolo token create)", serial, errRevoked)
	}
	return c.Certificates[i].Lineage, nil
}

// Revoke makes every certificate of the host bad, and every token that was not used yet. It returns how many of each.
func (l *Ledger) Revoke(ctx context.Context) (certificates, tokens int, err error) {
	err = l.change(ctx, func(c *Content, now time.Time) error {
		certificates = len(c.Good(now))
		c.Certificates = nil
		c.Tokens = slices.DeleteFunc(c.Tokens, func(t TokenRecord) bool {
			if t.Used.IsZero() && !now.After(t.Expires) {
				tokens++
				return true
			}
			return false
		})
		for i := range c.Tokens {
			c.Tokens[i].Key = nil
		}
		return nil
	})
	return certificates, tokens, err
}

// ground is what entitles a host to a certificate: a token that was made for it, or a certificate that is good.
type ground struct {
	token *TokenRecord
	shown string // the serial of the certificate
	// lineage is that of the new certificate.
	lineage string
}

func (g ground) String() string {
	if g.token != nil {
		return "token " + g.token.ID
	}
	return "certificate " + g.shown
}

// groundOf finds out why a host may have a certificate.
func (c *Content) groundOf(asked question, shown *x509.Certificate) (ground, error) {
	switch {
	case asked.TokenID != "":
		t, err := c.token(asked.TokenID, asked.Secret)
		return ground{token: t, lineage: asked.TokenID}, err
	case shown == nil:
		return ground{}, errNothingShown
	case shown.Subject.CommonName != c.Host:
		return ground{}, fmt.Errorf("%w: its certificate is for %q, and this node is for %q", errOtherName, shown.Subject.CommonName, c.Host)
	}
	lineage, err := c.check(shown)
	return ground{shown: serialOf(shown), lineage: lineage}, err
}

// issue signs what a host asks for and makes it good. Somebody with neither a token nor a certificate is sent away before anything that
// costs time.
func (l *Ledger) issue(ctx context.Context, asked question, shown *x509.Certificate, validity time.Duration, peer string) (*x509.Certificate, error) {
	content, err := l.Read()
	if err != nil {
		return nil, err
	}
	if _, err := content.groundOf(asked, shown); err != nil {
		return nil, err
	}
	request, err := pki.ParseRequest(asked.Request)
	if err != nil {
		return nil, err
	}
	var cert *x509.Certificate
	err = l.change(ctx, func(c *Content, now time.Time) error {
		why, err := c.groundOf(asked, shown)
		if err != nil {
			return err
		}
		if name := request.Subject.CommonName; name != "" && name != c.Host {
			return fmt.Errorf("%w: it is for %q, and this node is for %q: %w", errOtherName, name, c.Host, errdefs.ErrPermissionDenied)
		}
		if why.token != nil {
			if err := why.token.redeem(request, now, peer); err != nil {
				return err
			}
		}
		life := pki.Lifetime{From: now, Validity: min(validity, l.authority.Certificate().NotAfter.Sub(now))}
		cert, err = l.authority.SignHost(c.Host, request, life)
		if err != nil {
			return err
		}
		c.add(CertificateRecord{Serial: serialOf(cert), Issued: now, NotAfter: cert.NotAfter, By: why.String(), Lineage: why.lineage}, why.shown)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return cert, nil
}
