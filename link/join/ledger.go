// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/pki"
)

const (
	ledgerFile = "ledger.json"
	lockFile   = "lock"
	// authorityValidity is that of the authority and of the node's own certificate, whose keys are in the same directory: there is
	// nothing to be won by a shorter one.
	authorityValidity = 10 * 365 * 24 * time.Hour
	// rememberUsed is how long a used or expired token is kept, to tell what became of it.
	rememberUsed = 7 * 24 * time.Hour
	// maxCertificates is how many certificates are good at most. A host needs the one it has and the one it gets; whoever renews
	// without end, in error or on purpose, makes the oldest ones bad and not the ledger large.
	maxCertificates = 32
)

// Ledger is a directory of one node: its authority, its own certificate for hosts, the tokens, and the certificates of hosts that
// are good. Whoever can read it can be the node; it has mode 0700.
type Ledger struct {
	dir   string
	clock clock.Clock
	// authority is read once: it is the same for as long as the ledger is.
	authority *pki.Authority
}

// TokenRecord is what is kept of a token.
type TokenRecord struct {
	ID string `json:"id"`
	// Hash is that of the secret.
	Hash    []byte    `json:"hash"`
	Expires time.Time `json:"expires"`
	// Used is when, and UsedBy by whom it was used, or the zero time.
	Used   time.Time `json:"used,omitzero"`
	UsedBy string    `json:"usedBy,omitempty"`
	// Key is the hash of the public key that the token gave a certificate. Who has the key may have another one until the token
	// expires, for the answer with the first may be lost. It is removed when the host is revoked.
	Key []byte `json:"key,omitempty"`
}

// CertificateRecord is what is kept of a certificate that is good.
type CertificateRecord struct {
	Serial   string    `json:"serial"`
	Issued   time.Time `json:"issued"`
	NotAfter time.Time `json:"notAfter"`
	// By is the id of the token, or of the certificate that was renewed.
	By string `json:"by"`
	// Lineage is the id of the token with which the host joined. Certificates that come from each other by renewals have the same.
	Lineage string `json:"lineage,omitempty"`
}

// Content is what is in a ledger.
type Content struct {
	// Host is the name of the node's host.
	Host         string              `json:"host"`
	Tokens       []TokenRecord       `json:"tokens"`
	Certificates []CertificateRecord `json:"certificates"`
}

// OpenLedger opens the ledger in dir. NotFound if no node has made one there.
func OpenLedger(dir string, clk clock.Clock) (*Ledger, error) {
	l := &Ledger{dir: dir, clock: clk}
	if _, err := l.Read(); err != nil {
		return nil, err
	}
	return l.withAuthority()
}

func (l *Ledger) withAuthority() (_ *Ledger, err error) {
	l.authority, err = pki.NewStore(l.dir, false).Authority()
	return l, err
}

// MakeLedger opens the ledger of the node whose host has the name, and makes what is missing.
func MakeLedger(dir, host string, clk clock.Clock) (*Ledger, error) {
	l := &Ledger{dir: dir, clock: clk}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory for joining: %w", err)
	}
	err := l.locked(context.Background(), func() error {
		content, err := l.Read()
		switch {
		case errdefs.IsNotFound(err):
			return l.begin(host)
		case err != nil:
			return err
		case content.Host != host:
			return fmt.Errorf("%s is for the host %q and not for %q: give each node a directory of its own: %w", dir, content.Host, host, errdefs.ErrInvalidArgument)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l.withAuthority()
}

// begin makes everything there is in a new ledger, the file that makes it one at the end.
func (l *Ledger) begin(host string) error {
	store := pki.NewStore(l.dir, true)
	life := pki.Lifetime{From: l.clock.Now(), Validity: authorityValidity}
	if _, err := store.Init("tombolo "+host, life); err != nil {
		return err
	}
	life.Validity -= 24 * time.Hour // nothing outlives its authority
	if _, err := store.IssueNode(host, life); err != nil {
		return err
	}
	return l.write(&Content{Host: host})
}

// NodeFiles are those of the node in the directory of a ledger, whether or not they were made: the authority's certificate, and the
// node's own with its key.
func NodeFiles(dir, host string) (authority, cert, key string) {
	store := pki.NewStore(dir, false)
	files := store.NodeFiles(host)
	return store.AuthorityFile(), files.CertFile, files.KeyFile
}

// Read returns what is in the ledger.
func (l *Ledger) Read() (*Content, error) {
	data, err := os.ReadFile(filepath.Join(l.dir, ledgerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no node has used %s yet: start tombolo node with it first: %w", l.dir, errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ledger: %w", err)
	}
	content := &Content{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(content); err != nil {
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(l.dir, ledgerFile), err)
	}
	return content, nil
}

// change reads, changes and writes the ledger while nobody else does. If do fails, nothing is changed.
func (l *Ledger) change(ctx context.Context, do func(*Content, time.Time) error) error {
	return l.locked(ctx, func() error {
		content, err := l.Read()
		if err != nil {
			return err
		}
		now := l.clock.Now()
		content.forget(now)
		if err := do(content, now); err != nil {
			return err
		}
		return l.write(content)
	})
}

// forget drops tokens that are long over. Certificates are never dropped for their age, which TLS looks at: a clock that is wrong for
// a while would lock their hosts out for good.
func (c *Content) forget(now time.Time) {
	c.Tokens = slices.DeleteFunc(c.Tokens, func(t TokenRecord) bool { return now.Sub(t.Expires) > rememberUsed })
}

// add makes a certificate good. If they are too many, the oldest one is not any more, unless it is the one that is in use.
func (c *Content) add(r CertificateRecord, inUse string) {
	c.Certificates = append(c.Certificates, r)
	if len(c.Certificates) <= maxCertificates {
		return
	}
	oldest := slices.IndexFunc(c.Certificates, func(r CertificateRecord) bool { return r.Serial != inUse })
	c.Certificates = slices.Delete(c.Certificates, oldest, oldest+1)
}

// Good are the certificates that have not expired, the oldest first.
func (c *Content) Good(now time.Time) []CertificateRecord {
	return slices.DeleteFunc(slices.Clone(c.Certificates), func(r CertificateRecord) bool { return now.After(r.NotAfter) })
}

func (l *Ledger) write(content *Content) error {
	data, err := json.MarshalIndent(content, "", " ")
	if err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	return pki.WriteFile(filepath.Join(l.dir, ledgerFile), append(data, '\n'))
}

func (l *Ledger) locked(ctx context.Context, do func() error) error {
	return locked(ctx, l.clock, filepath.Join(l.dir, lockFile), do)
}
