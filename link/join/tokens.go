// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/sha256"
	"crypto/subtle"
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
func (l *Ledger) CreateToken(validity time.Duration) (Token, error) {
	authority, err := l.authority()
	if err != nil {
		return Token{}, err
	}
	token, err := newToken(authority.Certificate())
	if err != nil {
		return Token{}, err
	}
	return token, l.change(func(c *Content, now time.Time) error {
		hash := sha256.Sum256(token.secret[:])
		c.Tokens = append(c.Tokens, TokenRecord{ID: token.ID, Hash: hash[:], Expires: now.Add(validity)})
		return nil
	})
}

// DeleteToken takes a token back. NotFound if there is none of that id.
func (l *Ledger) DeleteToken(id string) error {
	return l.change(func(c *Content, _ time.Time) error {
		before := len(c.Tokens)
		c.Tokens = slices.DeleteFunc(c.Tokens, func(t TokenRecord) bool { return t.ID == id })
		if len(c.Tokens) == before {
			return fmt.Errorf("there is no token %q (tombolo token list): %w", id, errdefs.ErrNotFound)
		}
		return nil
	})
}

// redeem takes a token that is good, once.
func (c *Content) redeem(id string, secret []byte, now time.Time, by string) error {
	hash := sha256.Sum256(secret)
	i := slices.IndexFunc(c.Tokens, func(t TokenRecord) bool { return t.ID == id })
	if i < 0 || subtle.ConstantTimeCompare(c.Tokens[i].Hash, hash[:]) != 1 {
		return errUnknownToken
	}
	t := &c.Tokens[i]
	if !t.Used.IsZero() {
		return fmt.Errorf("%w, %s by %s; if that was not you, revoke what it got: tombolo token revoke", errUsedToken, t.Used.UTC().Format(time.RFC3339), t.UsedBy)
	}
	if now.After(t.Expires) {
		return fmt.Errorf("%w, %s: make another one with tombolo token create", errExpiredToken, t.Expires.UTC().Format(time.RFC3339))
	}
	t.Used, t.UsedBy = now, by
	return nil
}
