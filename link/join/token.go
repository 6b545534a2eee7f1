// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
)

const (
	tokenPrefix = "tombolo1"
	idBytes     = 6
	secretBytes = 24
	// form is what a token looks like, for errors.
	form = "tombolo1.ID.SECRET.HASH, as tombolo token create prints it"
)

var encoding = base64.RawURLEncoding

// Token is what a host joins with. Its text form has a secret and must not be logged.
type Token struct {
	// ID may be logged.
	ID     string
	secret [secretBytes]byte
	// authority is the hash of the public key of the authority to believe.
	authority [sha256.Size]byte
}

// newToken makes a token that leads to an authority.
func newToken(authority *x509.Certificate) (Token, error) {
	var id [idBytes]byte
	t := Token{authority: hashOf(authority)}
	for _, b := range [][]byte{id[:], t.secret[:]} {
		if _, err := rand.Read(b); err != nil {
			return Token{}, fmt.Errorf("making a token: %w", err)
		}
	}
	t.ID = hex.EncodeToString(id[:]) // never looks like a flag
	return t, nil
}

func hashOf(authority *x509.Certificate) [sha256.Size]byte {
	return sha256.Sum256(authority.RawSubjectPublicKeyInfo)
}

// Text is the token as it is carried to the host.
func (t Token) Text() string {
	return strings.Join([]string{tokenPrefix, t.ID, encoding.EncodeToString(t.secret[:]), encoding.EncodeToString(t.authority[:])}, ".")
}

// String does not have the secret.
func (t Token) String() string { return tokenPrefix + "." + t.ID }

// ParseToken reads a token. An error is InvalidArgument and does not have the secret.
func ParseToken(text string) (Token, error) {
	var t Token
	parts := strings.Split(text, ".")
	if len(parts) != 4 || parts[0] != tokenPrefix {
		return t, fmt.Errorf("that is no token: give %s: %w", form, errdefs.ErrInvalidArgument)
	}
	if id, err := hex.DecodeString(parts[1]); err != nil || len(id) != idBytes || strings.ToLower(parts[1]) != parts[1] {
		return t, fmt.Errorf("the token is not whole: give %s: %w", form, errdefs.ErrInvalidArgument)
	}
	for i, into := range [][]byte{t.secret[:], t.authority[:]} {
		data, err := encoding.Strict().DecodeString(parts[i+2])
		if err != nil || len(data) != len(into) {
			return Token{}, fmt.Errorf("the token is not whole: give %s: %w", form, errdefs.ErrInvalidArgument)
		}
		copy(into, data)
	}
	t.ID = parts[1]
	return t, nil
}

// ParseInvitation reads TOKEN@host:port.
func ParseInvitation(text string) (Token, string, error) {
	token, endpoint, ok := strings.Cut(text, "@")
	if !ok || endpoint == "" {
		return Token{}, "", fmt.Errorf("there is no node to join: give TOKEN@host:port: %w", errdefs.ErrInvalidArgument)
	}
	t, err := ParseToken(token)
	return t, endpoint, err
}
