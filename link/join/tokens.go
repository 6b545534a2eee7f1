// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
)

// Reasons for which a token is not taken.
var (
	errUnknownToken = errors.New("the token is not known here: it is of another node, was deleted, or is older than a week")
	errUsedToken    = errors.New("the token was used already")
	errExpiredToken = errors.New("the token has expired")
)

// CreateToken makes a token that is good for once, for a while.
func (l *Ledger) CreateToken(ctx context.Context, validity time.Duration) (Token, error) {
	token, err := newToken(l.authority.Certificate())
	if err != nil {
		return Token{}, err
	}
	return token, l.change(ctx, func(c *Content, now time.Time) error {
		hash := sha256.Sum256(token.secret[:])
		c.Tokens = append(c.Tokens, TokenRecord{ID: token.ID, Hash: hash[:], Expires: now.Add(validity)})
		return nil
	})
}

// DeleteToken takes a token back. NotFound if there is none of that id, FailedPrecondition if it was used: what it gave is good, and
// the record says to whom.
func (l *Ledger) DeleteToken(ctx context.Context, id string) error {
	return l.change(ctx, func(c *Content, _ time.Time) error {
		i := slices.IndexFunc(c.Tokens, func(t TokenRecord) bool { return t.ID == id })
		if i < 0 {
			return fmt.Errorf("there is no token %q (tombolo token list): %w", id, errdefs.ErrNotFound)
		}
		if t := c.Tokens[i]; !t.Used.IsZero() {
			return fmt.Errorf("token %s gave a certificate already, %s to %s: take that back with tombolo token revoke: %w",
				id, t.Used.UTC().Format(time.RFC3339), t.UsedBy, errdefs.ErrFailedPrecondition)
		}
		c.Tokens = slices.Delete(c.Tokens, i, i+1)
		return nil
	})
}

// token finds a token of which the secret is known.
func (c *Content) token(id string, secret []byte) (*TokenRecord, error) {
	hash := sha256.Sum256(secret)
	i := slices.IndexFunc(c.Tokens, func(t TokenRecord) bool { return t.ID == id })
	if i < 0 || subtle.ConstantTimeCompare(c.Tokens[i].Hash, hash[:]) != 1 {
		return nil, errUnknownToken
	}
	return &c.Tokens[i], nil
}

// redeem takes a token that is good, for one key.
func (t *TokenRecord) redeem(request *x509.CertificateRequest, now time.Time, by string) error {
	key := sha256.Sum256(request.RawSubjectPublicKeyInfo)
	if !t.Used.IsZero() && !bytes.Equal(t.Key, key[:]) {
		return fmt.Errorf("%w, %s by %s; if that was not you, revoke what it got: tombolo token revoke", errUsedToken, t.Used.UTC().Format(time.RFC3339), t.UsedBy)
	}
	if now.After(t.Expires) {
		return fmt.Errorf("%w, %s: make another one with tombolo token create", errExpiredToken, t.Expires.UTC().Format(time.RFC3339))
	}
	t.Used, t.UsedBy, t.Key = now, by, key[:]
	return nil
}
