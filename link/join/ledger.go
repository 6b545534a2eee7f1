// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
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
)

// Ledger is a directory of one node: its authority, its own certificate for hosts, the tokens, and the certificates of hosts that
// are good. Whoever can read it can be the node; it has mode 0700.
type Ledger struct {
	dir   string
	clock clock.PassiveClock
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
}

// CertificateRecord is what is kept of a certificate that is good.
type CertificateRecord struct {
	Serial   string    `json:"serial"`
	Issued   time.Time `json:"issued"`
	NotAfter time.Time `json:"notAfter"`
	// By is the id of the token, or of the certificate that was renewed.
	By string `json:"by"`
}

// Content is what is in a ledger.
type Content struct {
	// Host is the name of the node's host.
	Host         string              `json:"host"`
	Tokens       []TokenRecord       `json:"tokens"`
	Certificates []CertificateRecord `json:"certificates"`
}

// OpenLedger opens the ledger in dir. NotFound if no node has made one there.
func OpenLedger(dir string, clk clock.PassiveClock) (*Ledger, error) {
	l := &Ledger{dir: dir, clock: clk}
	if _, err := l.Read(); err != nil {
		return nil, err
	}
	return l, nil
}

// MakeLedger opens the ledger of the node whose host has the name, and makes what is missing.
func MakeLedger(dir, host string, clk clock.PassiveClock) (*Ledger, error) {
	l := &Ledger{dir: dir, clock: clk}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the directory for joining: %w", err)
	}
	return l, l.locked(func() error {
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

// Files are those of the node: the authority's certificate, and the node's own with its key.
func (l *Ledger) Files(host string) (authority, cert, key string) {
	store := pki.NewStore(l.dir, false)
	files := store.NodeFiles(host)
	return store.AuthorityFile(), files.CertFile, files.KeyFile
}

func (l *Ledger) authority() (*pki.Authority, error) { return pki.NewStore(l.dir, false).Authority() }

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
func (l *Ledger) change(do func(*Content, time.Time) error) error {
	return l.locked(func() error {
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

// forget drops what is long over.
func (c *Content) forget(now time.Time) {
	c.Tokens = slices.DeleteFunc(c.Tokens, func(t TokenRecord) bool { return now.Sub(t.Expires) > rememberUsed })
	c.Certificates = slices.DeleteFunc(c.Certificates, func(r CertificateRecord) bool { return now.After(r.NotAfter) })
}

func (l *Ledger) write(content *Content) error {
	data, err := json.MarshalIndent(content, "", " ")
	if err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	return pki.WriteFile(filepath.Join(l.dir, ledgerFile), append(data, '\n'))
}

// locked runs do while no other process has the lock.
func (l *Ledger) locked(do func() error) (err error) {
	file, err := os.OpenFile(filepath.Join(l.dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking the ledger: %w", err)
	}
	defer file.Close() // and with it the lock ends
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("locking the ledger: %w", err)
	}
	return do()
}
