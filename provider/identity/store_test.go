// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// authority signs certificates of tests.
type authority struct {
	*testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	next int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{T: t, next: 1}
	a.key = a.newKey()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) newKey() *ecdsa.PrivateKey {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	return key
}

// issue returns a certificate and its key in PEM.
func (a *authority) issue(name string, validity time.Duration) (certPEM, keyPEM []byte) {
	a.Helper()
	a.next++
	key := a.newKey()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(a.next), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(validity),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}, a.cert, key.Public(), a.key)
	if err != nil {
		a.Fatal(err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		a.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), keyPEM
}

func open(dir string, log *bytes.Buffer, changed func()) *store {
	return openStore(dir, "client", slog.New(slog.NewTextHandler(log, nil)), changed)
}

func TestStoreKeepsThePairOverARestart(t *testing.T) {
	var log bytes.Buffer
	dir := filepath.Join(t.TempDir(), "made", "if", "missing")
	changes := 0
	s := open(dir, &log, func() { changes++ })
	if _, err := s.Current(); err == nil {
		t.Error("there is a pair from the beginning")
	}
	cert, key := newAuthority(t).issue("system:node:edge-1", time.Hour)
	if _, err := s.Update(cert, key); err != nil || changes != 1 {
		t.Fatalf("update: %v, changes told: %d", err, changes)
	}
	for name, s := range map[string]*store{"the same": s, "the next": open(dir, &log, nil)} {
		pair, err := s.Current()
		if err != nil || pair.Leaf.Subject.CommonName != "system:node:edge-1" {
			t.Fatalf("%s: %v, %v", name, pair, err)
		}
		gotCert, gotKey, err := encode(pair)
		if err != nil || !bytes.Equal(gotCert, cert) || !bytes.Equal(gotKey, key) {
			t.Errorf("%s: the pair is not what was given to it (%v)", name, err)
		}
	}
	if log.Len() > 0 {
		t.Errorf("log: %s", log.String())
	}
}

func TestStoreKeepsThePairInMemoryIfItCannotWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, words := range map[string]string{"": "", filepath.Join(file, "below"): "kept in memory only"} {
		var log bytes.Buffer
		s := open(dir, &log, func() {})
		cert, key := newAuthority(t).issue("a", time.Hour)
		if _, err := s.Update(cert, key); err != nil {
			t.Errorf("%q: %v", dir, err)
		}
		if pair, err := s.Current(); err != nil || pair.Leaf == nil {
			t.Errorf("%q: %v, %v", dir, pair, err)
		}
		if !bytes.Contains(log.Bytes(), []byte(words)) || (words == "" && log.Len() > 0) {
			t.Errorf("%q: log %q, want %q", dir, log.String(), words)
		}
	}
}

func TestStoreReplacesWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	s := open(dir, &log, func() {})
	cert, key := newAuthority(t).issue("a", time.Hour)
	if _, err := s.Update(cert, key); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "client-current.pem"), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(dir, &log, func() {})
	if pair, err := s.Current(); err == nil {
		t.Fatalf("%v was read from rubbish", pair)
	}
	if !bytes.Contains(log.Bytes(), []byte("cannot be read")) {
		t.Errorf("log: %s", log.String())
	}
	if _, err := s.Update(cert, key); err != nil {
		t.Fatal(err)
	}
	if _, err := open(dir, &log, nil).Current(); err != nil {
		t.Error(err)
	}
}

// pairs are the files in a directory that have a pair.
func pairs(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "client-2*.pem"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestStoreKeepsNoFormerKeys(t *testing.T) {
	dir := t.TempDir()
	former, foreign := filepath.Join(dir, "client-2026-01-02-03-04-05.pem"), filepath.Join(dir, "serving-2026-01-02-03-04-05.pem")
	for _, name := range []string{former, foreign} {
		if err := os.WriteFile(name, []byte("a key"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	cert, key := newAuthority(t).issue("a", time.Hour)
	if _, err := open(dir, &log, func() {}).Update(cert, key); err != nil {
		t.Fatal(err)
	}
	if names := pairs(t, dir); len(names) != 1 || names[0] == former {
		t.Errorf("%q are there, want the newest pair alone", names)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("what belongs to another store: %v", err)
	}
	if _, err := open(dir, &log, nil).Current(); err != nil || log.Len() > 0 {
		t.Errorf("%v, log %s", err, log.String())
	}
}

func TestStoreUsesAPairThatItCannotKeep(t *testing.T) {
	dir := t.TempDir()
	var log bytes.Buffer
	s := open(dir, &log, func() {})
	a := newAuthority(t)
	if _, err := s.Update(a.issue("before", time.Hour)); err != nil {
		t.Fatal(err)
	}
	// The name that is to be renamed to the current one is taken, so that the pair cannot become the current one.
	if err := os.WriteFile(filepath.Join(dir, "client-updated.pem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Update(a.issue("after", time.Hour)); err != nil {
		t.Fatal(err)
	}
	if pair, err := s.Current(); err != nil || pair.Leaf.Subject.CommonName != "after" {
		t.Errorf("%v, %v", pair, err)
	}
	if !bytes.Contains(log.Bytes(), []byte("kept in memory only")) {
		t.Errorf("log: %s", log.String())
	}
}

func TestStoreRefusesAKeyOfAnotherCertificate(t *testing.T) {
	var log bytes.Buffer
	s := open(t.TempDir(), &log, func() { t.Error("told of a change") })
	a := newAuthority(t)
	cert, _ := a.issue("a", time.Hour)
	_, key := a.issue("a", time.Hour)
	if pair, err := s.Update(cert, key); err == nil {
		t.Errorf("took %v", pair)
	}
}
