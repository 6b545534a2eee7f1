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
	"sync"

	"k8s.io/client-go/util/certificate"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/klog/v2"
)

// store is a certificate manager's store. It keeps the newest pair in memory, and below a directory if there is one.
type store struct {
	// files is nil when nothing is kept.
	files certificate.Store
	// changed is called after each new pair.
	changed func()

	mu   sync.Mutex
	pair *tls.Certificate
}

var _ certificate.Store = (*store)(nil)

// openStore opens the store of pairs that are called prefix. A directory that cannot be written to is no error: pairs are
// kept in memory then. Neither is a pair that cannot be read: a new one is asked for.
func openStore(dir, prefix string, logger *slog.Logger, changed func()) *store {
	s := &store{changed: changed}
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

// Update takes a new pair.
func (s *store) Update(certPEM, keyPEM []byte) (pair *tls.Certificate, err error) {
	if s.files != nil {
		pair, err = s.files.Update(certPEM, keyPEM)
	} else {
		var parsed tls.Certificate
		parsed, err = tls.X509KeyPair(certPEM, keyPEM) // fills in Leaf
		pair = &parsed
	}
	if err != nil {
		return nil, fmt.Errorf("keeping the new certificate: %w", err)
	}
	s.mu.Lock()
	s.pair = pair
	s.mu.Unlock()
	s.changed()
	return pair, nil
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
