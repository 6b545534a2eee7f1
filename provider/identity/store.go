// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
)

// store is a certificate manager's store. It keeps the newest pair in memory, and below a directory if there is one.
type store struct {
	// files is nil when nothing is kept. Those of pairs are in dir, and their names begin with prefix.
	files       certificate.Store
	dir, prefix string
	logger      *slog.Logger
	// changed is called after each new pair.
	changed func()

	mu   sync.Mutex
	pair *tls.Certificate
}

var _ certificate.Store = (*store)(nil)

// openStore opens the store of pairs that are called prefix. A directory that cannot be written to is no error: pairs are
// kept in memory then. Neither is a pair that cannot be read: a new one is asked for.
func openStore(dir, prefix string, logger *slog.Logger, changed func()) *store {
	s := &store{dir: dir, prefix: prefix, logger: logger, changed: changed}
	if dir == "" {
		return s
	}
	if err := writable(dir); err != nil {
		logger.Warn("Certificates are kept in memory only, each start asks for new ones: the directory of --cert-dir cannot be written to", "dir", dir, "error", err)
		return s
	}
	files, err := certificate.NewFileStoreWithLogger(klog.Background().V(2), prefix, dir, dir, "", "")
	if err != nil {
		logger.Warn("Certificates are kept in memory only, each start asks for new ones", "dir", dir, "error", err)
		return s
	}
	s.files = files
	pair, err := files.Current()
	var none *certificate.NoCertKeyError
	switch {
	case err == nil:
		s.pair = pair
	case !errors.As(err, &none):
		logger.Warn("Asking for a new certificate: the one that is kept cannot be read", "dir", dir, "error", err)
	}
	return s
}

// writable makes the directory and tries whether files can be made in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".probe-")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Current returns the pair, or a NoCertKeyError.
func (s *store) Current() (*tls.Certificate, error) {
	if pair := s.get(); pair != nil {
		return pair, nil
	}
	none := certificate.NoCertKeyError("there is no certificate yet")
	return nil, &none
}

// Update takes a new pair. One that cannot be written is kept in memory only: the node needs it all the same.
func (s *store) Update(certPEM, keyPEM []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certPEM, keyPEM) // fills in Leaf
	if err != nil {
		return nil, fmt.Errorf("taking the new certificate: %w", err)
	}
	if s.files != nil {
		if _, err := s.files.Update(certPEM, keyPEM); err != nil {
			s.logger.Warn("The new certificate is kept in memory only: make room in the directory of --cert-dir, and see that it can be written to", "dir", s.dir, "error", err)
		}
		s.sweep()
	}
	s.mu.Lock()
	s.pair = &pair
	s.mu.Unlock()
	s.changed()
	return &pair, nil
}

// sweep removes the pairs before the current one and what could not be written whole: keys that are of no use, and a cluster
// may give a new one every few minutes.
func (s *store) sweep() {
	current, err := os.Readlink(filepath.Join(s.dir, s.prefix+"-current.pem"))
	if err != nil {
		return // nothing says which is the current one
	}
	entries, err := os.ReadDir(s.dir)
	for _, entry := range entries {
		old, _ := filepath.Match(s.prefix+"-????-??-??-??-??-??.pem", entry.Name())
		if old && entry.Name() != filepath.Base(current) {
			err = errors.Join(err, os.Remove(filepath.Join(s.dir, entry.Name())))
		}
	}
	if err != nil {
		s.logger.Warn("Former certificates and their keys stay in the directory of --cert-dir", "dir", s.dir, "error", err)
	}
}

// get returns the pair, nil if there is none. It is shared and never changed.
func (s *store) get() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pair
}

// forget drops the pair, so that a new one is asked for.
func (s *store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pair = nil
}

// encode returns the certificate with its chain, and the key, in PEM.
func encode(pair *tls.Certificate) (certPEM, keyPEM []byte, err error) {
	for _, der := range pair.Certificate {
		certPEM = append(certPEM, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	keyPEM, err = keyutil.MarshalPrivateKeyToPEM(pair.PrivateKey)
	return certPEM, keyPEM, err
}
