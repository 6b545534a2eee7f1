// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// fingerprintPrefix begins a fingerprint as ssh-keygen prints it.
const fingerprintPrefix = "SHA256:"

// HostKeys say which host keys are accepted. There is no way to accept any.
type HostKeys struct {
	// KnownFiles are in the format of OpenSSH's known_hosts. They are read again for each connection.
	KnownFiles []string
	// Pinned are keys of the target, each a fingerprint (SHA256:...) or a public key (ssh-ed25519 AAAA...). With any of
	// them the files do not count for the target. Jump hosts are always looked up in the files.
	Pinned []string
}

// PinnedKey is a key that was given as such.
type PinnedKey struct {
	fingerprint string
	key         ssh.PublicKey // nil if only the fingerprint is known
}

// ParsePinnedKey reads a fingerprint or a public key. An error is InvalidArgument.
func ParsePinnedKey(text string) (PinnedKey, error) {
	if digest, ok := strings.CutPrefix(text, fingerprintPrefix); ok {
		sum, err := base64.RawStdEncoding.Strict().DecodeString(strings.TrimRight(digest, "="))
		if err != nil || len(sum) != sha256.Size {
			return PinnedKey{}, fmt.Errorf("%q is no fingerprint: give what ssh-keygen -lf prints, SHA256: and 43 characters: %w", text, errdefs.ErrInvalidArgument)
		}
		return PinnedKey{fingerprint: fingerprintPrefix + strings.TrimRight(digest, "=")}, nil
	}
	key, _, _, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if err != nil || len(bytes.TrimSpace(rest)) > 0 {
		return PinnedKey{}, fmt.Errorf("%q is neither a fingerprint (SHA256:...) nor a public key (ssh-ed25519 AAAA...): %w", text, errdefs.ErrInvalidArgument)
	}
	if _, ok := key.(*ssh.Certificate); ok {
		return PinnedKey{}, fmt.Errorf("%q is a certificate: give the key itself, or its authority as @cert-authority in a known_hosts file: %w", text, errdefs.ErrInvalidArgument)
	}
	return PinnedKey{fingerprint: ssh.FingerprintSHA256(key), key: key}, nil
}

// hostKeyError is a host key that was not accepted.
type hostKeyError struct{ error }

func (e hostKeyError) Unwrap() error          { return e.error }
func (hostKeyError) mostPause() time.Duration { return maxRefusalPause }

// checker decides about the keys of one host.
type checker struct {
	// algorithms are what the host is asked for, so that it shows a key that is known rather than another one it has.
	algorithms []string
	check      ssh.HostKeyCallback
}

// preferred are the algorithms to ask for where nothing is known of the key's kind, in the order of OpenSSH.
func preferred() []string {
	return []string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256,
	}
}

// algorithmsOf are the signature algorithms of a type of key. SHA-1 is not among them.
func algorithmsOf(keyType string) []string {
	if keyType == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256}
	}
	return []string{keyType}
}

// pinnedChecker accepts the keys that were given as such.
func pinnedChecker(pinned []PinnedKey) checker {
	var c checker
	for _, pin := range pinned {
		if pin.key == nil {
			c.algorithms = preferred()
			break
		}
		c.algorithms = append(c.algorithms, algorithmsOf(pin.key.Type())...)
	}
	c.algorithms = unique(c.algorithms)
	c.check = func(address string, _ net.Addr, key ssh.PublicKey) error {
		shown := ssh.FingerprintSHA256(key)
		var wanted []string
		for _, pin := range pinned {
			if pin.fingerprint == shown {
				return nil
			}
			wanted = append(wanted, pin.fingerprint)
		}
		return hostKeyError{fmt.Errorf("%s showed the host key %s (%s) and not the pinned %s: somebody may be in between, or it has more than one key and another one was pinned; "+
			"compare on the host with ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub", address, shown, key.Type(), strings.Join(wanted, " or "))}
	}
	return c
}

// knownChecker accepts the keys that files have of a host.
func knownChecker(files []string, address string) (checker, error) {
	known, err := knownhosts.New(files...)
	if err != nil {
		return checker{}, fmt.Errorf("reading the known hosts of --host-ssh-known-hosts: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	// What files have of the host shows when it is asked for a key that they cannot have.
	algorithms := certificateAlgorithms(files, address)
	never, err := ssh.NewPublicKey(ed25519.PublicKey(make([]byte, ed25519.PublicKeySize)))
	if err != nil {
		return checker{}, err
	}
	if mismatch := (*knownhosts.KeyError)(nil); errors.As(known(address, peer(address), never), &mismatch) {
		for _, want := range mismatch.Want {
			algorithms = append(algorithms, algorithmsOf(want.Key.Type())...)
		}
	}
	if len(algorithms) == 0 {
		algorithms = preferred() // so that the error tells which key the host has
	}
	return checker{algorithms: unique(algorithms), check: func(address string, _ net.Addr, key ssh.PublicKey) error {
		if err := known(address, peer(address), key); err != nil {
			return hostKeyError{explainUnknown(err, files, address, key)}
		}
		return nil
	}}, nil
}

// explainUnknown says why the files do not have a key.
func explainUnknown(err error, files []string, address string, key ssh.PublicKey) error {
	shown := fmt.Sprintf("%s showed the host key %s (%s)", address, ssh.FingerprintSHA256(key), key.Type())
	where := strings.Join(files, " and ")
	var mismatch *knownhosts.KeyError
	var revoked *knownhosts.RevokedError
	switch {
	case errors.As(err, &revoked):
		return fmt.Errorf("%s, which is revoked in %s:%d", shown, revoked.Revoked.Filename, revoked.Revoked.Line)
	case errors.As(err, &mismatch) && len(mismatch.Want) == 0:
		return fmt.Errorf("%s, and %s has none of it: compare on the host with ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub, and if it is the same add the line: %s",
			shown, where, knownhosts.Line([]string{knownhosts.Normalize(address)}, key))
	case errors.As(err, &mismatch):
		want := mismatch.Want[0]
		return fmt.Errorf("%s, and line %d of %s has another one, %s: somebody may be in between, or the host was installed anew; "+
			"compare on the host with ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub before that line is replaced",
			shown, want.Line, want.Filename, ssh.FingerprintSHA256(want.Key))
	default:
		return fmt.Errorf("%s, which %s does not make good: %w", shown, where, err)
	}
}

// certificateAlgorithms are what a host is asked for that files have an authority of. Files are readable: they were just read.
func certificateAlgorithms(files []string, address string) []string {
	for _, file := range files {
		rest, err := os.ReadFile(file)
		for err == nil {
			var marker string
			var hosts []string
			if marker, hosts, _, _, rest, err = ssh.ParseKnownHosts(rest); err == nil && marker == "cert-authority" && matches(hosts, address) {
				return []string{
					ssh.CertAlgoED25519v01, ssh.CertAlgoECDSA256v01, ssh.CertAlgoECDSA384v01, ssh.CertAlgoECDSA521v01,
					ssh.CertAlgoRSASHA512v01, ssh.CertAlgoRSASHA256v01,
				}
			}
		}
	}
	return nil
}

// matches says whether patterns of known_hosts are for an address. It only chooses what to ask the host for; whether its
// answer is accepted is decided elsewhere.
func matches(patterns []string, address string) bool {
	normal := knownhosts.Normalize(address)
	matched := false
	for _, pattern := range patterns {
		pattern, negated := strings.CutPrefix(pattern, "!")
		if !wildcard(pattern, normal) {
			continue
		}
		if negated {
			return false
		}
		matched = true
	}
	return matched
}

// wildcard matches text with a pattern of * and ?.
func wildcard(pattern, text string) bool {
	for ; pattern != ""; pattern, text = pattern[1:], text[1:] {
		if pattern[0] == '*' {
			for i := range len(text) + 1 {
				if wildcard(pattern[1:], text[i:]) {
					return true
				}
			}
			return false
		}
		if text == "" || pattern[0] != '?' && pattern[0] != text[0] {
			return false
		}
	}
	return text == ""
}

func unique(list []string) []string {
	var out []string
	for _, each := range list {
		if !slices.Contains(out, each) {
			out = append(out, each)
		}
	}
	return out
}

// peer is an address as a net.Addr.
type peer string

// Network returns "tcp".
func (peer) Network() string { return "tcp" }

// String returns host:port.
func (p peer) String() string { return string(p) }
