// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/link/pki"
)

// Files are where a host keeps what it got: a directory with mode 0700.
type Files struct{ Dir string }

// Authority is the file of the node's authority, in PEM.
func (f Files) Authority() string { return filepath.Join(f.Dir, "ca.crt") }

// Certificate is the file of the host's certificate.
func (f Files) Certificate() string { return filepath.Join(f.Dir, "host.crt") }

// Key is the file of its key.
func (f Files) Key() string { return filepath.Join(f.Dir, "host.key") }

// Write keeps an identity. A reader that has the certificate of one and the key of another finds that out, and reads again.
func (f Files) Write(id *Identity) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of the host's certificate: %w", err)
	}
	for _, file := range []struct {
		path string
		data []byte
	}{{f.Authority(), id.Authority}, {f.Key(), id.Key}, {f.Certificate(), id.Certificate}} {
		if err := pki.WriteFile(file.path, file.data); err != nil {
			return err
		}
	}
	return nil
}

// Leaf reads the certificate. NotFound if the host has not joined.
func (f Files) Leaf() (*x509.Certificate, error) {
	data, err := os.ReadFile(f.Certificate())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("this host has not joined a node, %s is not there: %w", f.Certificate(), errdefs.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the host's certificate: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("no certificate in %s: %w", f.Certificate(), errdefs.ErrInvalidArgument)
	}
	return x509.ParseCertificate(block.Bytes)
}
