// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/containerd/errdefs"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/pki"
)

// Files are where a host keeps what it got: a directory with mode 0700.
type Files struct {
	Dir   string
	Clock clock.Clock
}

// Authority is the file of the node's authority, in PEM.
func (f Files) Authority() string { return filepath.Join(f.Dir, "ca.crt") }

// Pair is the file of the host's certificate and its key. They are in one, so that no moment exists in which they do not fit.
func (f Files) Pair() string { return filepath.Join(f.Dir, "host.pem") }

// wishKey is the file of the key for which a certificate was asked, until there is one.
func (f Files) wishKey() string { return filepath.Join(f.Dir, "asked.key") }

// WishKey is the key to ask a certificate for, in PEM. It stays the same until Write: if the answer is lost, or this process ends before
// it is kept, the same token gives another one for it.
func (f Files) WishKey(ctx context.Context) ([]byte, error) {
	var key []byte
	err := f.locked(ctx, func() (err error) {
		if key, err = os.ReadFile(f.wishKey()); err == nil {
			if _, err = pki.NewRequest(key, ""); err == nil {
				return nil
			}
		}
		if key, err = pki.NewKey(); err != nil {
			return err
		}
		return pki.WriteFile(f.wishKey(), key)
	})
	return key, err
}

// Write keeps what a token gave.
func (f Files) Write(ctx context.Context, id *Identity) error {
	return f.locked(ctx, func() error {
		if err := f.write(id); err != nil {
			return err
		}
		if err := os.Remove(f.wishKey()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the key of the request: %w", err)
		}
		return nil
	})
}

// Renew keeps what was given for a former certificate, unless the host has another one by now because it joined anew.
func (f Files) Renew(ctx context.Context, id *Identity, former *x509.Certificate) error {
	return f.locked(ctx, func() error {
		if now, err := f.Leaf(); err != nil || !now.Equal(former) {
			return err
		}
		return f.write(id)
	})
}

func (f Files) write(id *Identity) error {
	if err := pki.WriteFile(f.Authority(), id.Authority); err != nil {
		return err
	}
	return pki.WriteFile(f.Pair(), slices.Concat(id.Certificate, id.Key))
}

func (f Files) locked(ctx context.Context, do func() error) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the host's certificate: %w", err)
	}
	return locked(ctx, f.Clock, filepath.Join(f.Dir, lockFile), do)
}

// Leaf reads the certificate. NotFound if the host has not joined.
func (f Files) Leaf() (*x509.Certificate, error) {
	data, err := os.ReadFile(f.Pair())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this host has not joined a node, %s is not there: %w", f.Pair(), errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the host's certificate: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("no certificate in %s: %w", f.Pair(), errdefs.ErrInvalidArgument)
	}
	return x509.ParseCertificate(block.Bytes)
}
