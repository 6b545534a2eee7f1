// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package keyring

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/types"
)

// Source names the secret that a credential is from. A secret that was deleted and made anew is another one.
type Source struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
}

// Credential is what a registry is asked with.
type Credential struct {
	Username string
	Password string
	Source   Source
}

// String and the other methods that print leave out what is secret.
func (c Credential) String() string {
	return fmt.Sprintf("credential of secret %s/%s", c.Source.Namespace, c.Source.Name)
}

// GoString is String.
func (c Credential) GoString() string { return c.String() }

// LogValue is String.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Hash tells credentials apart by what they say to a registry, whatever secret they are from. It must not leave the process:
// a weak password can be guessed from it.
func (c Credential) Hash() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%s", len(c.Username), c.Username, c.Password)
	return hex.EncodeToString(h.Sum(nil))
}
