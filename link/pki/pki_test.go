// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
)

var (
	testTime = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	testLife = Lifetime{From: testTime, Validity: 24 * time.Hour}
)

func newTestAuthority(t *testing.T) *Authority {
	t.Helper()
	a, err := NewAuthority("test", Lifetime{From: testTime, Validity: 240 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func parse(t *testing.T, certPEM []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(certPEM)
	if block == nil {
		t.Fatal("no PEM block")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func verify(a *Authority, cert *x509.Certificate, usage x509.ExtKeyUsage, name string) error {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	_, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}, DNSName: name, CurrentTime: testTime})
	return err
}

func TestHostCertificateServesAtItsAddressesAndCannotCall(t *testing.T) {
	a := newTestAuthority(t)
	pair, err := a.IssueHost("edge-1", []string{"10.1.2.3", "edge-1.example.com", "fd00::1"}, testLife)
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, pair.CertificatePEM)
	for _, name := range []string{"edge-1", "edge-1.example.com", "10.1.2.3", "fd00::1"} {
		if err := verify(a, cert, x509.ExtKeyUsageServerAuth, name); err != nil {
			t.Errorf("serving at %s: %v", name, err)
		}
	}
	if err := verify(a, cert, x509.ExtKeyUsageServerAuth, "10.1.2.4"); err == nil {
		t.Error("serves at an address it was not made for")
	}
	if err := verify(a, cert, x509.ExtKeyUsageClientAuth, ""); err == nil {
		t.Error("a host certificate is accepted from a client")
	}
	if diff := cmp.Diff([]string{OrganizationHost}, cert.Subject.Organization); diff != "" {
		t.Error(diff)
	}
}

func TestNodeCertificateCallsAndCannotServe(t *testing.T) {
	a := newTestAuthority(t)
	pair, err := a.IssueNode("node-1", testLife)
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, pair.CertificatePEM)
	if err := verify(a, cert, x509.ExtKeyUsageClientAuth, ""); err != nil {
		t.Error(err)
	}
	if err := verify(a, cert, x509.ExtKeyUsageServerAuth, ""); err == nil {
		t.Error("a node certificate is accepted from a server")
	}
	if cert.Subject.CommonName != "node-1" {
		t.Errorf("common name %q", cert.Subject.CommonName)
	}
}

func TestCertificateIsValidOnMachinesWhoseClockIsBehind(t *testing.T) {
	pair, err := newTestAuthority(t).IssueNode("n", testLife)
	if err != nil {
		t.Fatal(err)
	}
	cert := parse(t, pair.CertificatePEM)
	if want := testTime.Add(-backdating); !cert.NotBefore.Equal(want) {
		t.Errorf("not before %s, want %s", cert.NotBefore, want)
	}
	if want := testTime.Add(24 * time.Hour); !cert.NotAfter.Equal(want) || !pair.NotAfter.Equal(want) {
		t.Errorf("not after %s and %s, want %s", cert.NotAfter, pair.NotAfter, want)
	}
}

func TestIssuedCertificateCannotSignOthers(t *testing.T) {
	a := newTestAuthority(t)
	pair, err := a.IssueNode("n", testLife)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseAuthority(pair.CertificatePEM, pair.KeyPEM); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a node's certificate is taken for an authority: %v", err)
	}
}

func TestBadRequestsAreRefusedByName(t *testing.T) {
	a := newTestAuthority(t)
	other := newTestAuthority(t)
	for name, test := range map[string]struct {
		do   func() error
		want string
	}{
		"host name with a separator": {func() error { _, err := a.IssueHost("../x", nil, testLife); return err }, `host name "../x"`},
		"node name in capitals":      {func() error { _, err := a.IssueNode("Node", testLife); return err }, `node name "Node"`},
		"address with a port":        {func() error { _, err := a.IssueHost("h", []string{"10.0.0.1:80"}, testLife); return err }, `address "10.0.0.1:80"`},
		"negative validity":          {func() error { _, err := a.IssueNode("n", Lifetime{From: testTime, Validity: -1}); return err }, "not positive"},
		"longer than its authority": {func() error {
			_, err := a.IssueNode("n", Lifetime{From: testTime, Validity: 1000 * time.Hour})
			return err
		}, "longer than its authority"},
		"authority without a name": {func() error { _, err := NewAuthority("", testLife); return err }, "name of the authority"},
		"key of another authority": {func() error {
			_, err := ParseAuthority(a.Pair().CertificatePEM, other.Pair().KeyPEM)
			return err
		}, "does not belong"},
		"certificate is not PEM": {func() error { _, err := ParseAuthority([]byte("x"), a.Pair().KeyPEM); return err }, "no PEM block"},
		"key is not PEM":         {func() error { _, err := ParseAuthority(a.Pair().CertificatePEM, []byte("x")); return err }, "no PEM block"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.do()
			if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want InvalidArgument with %q", err, test.want)
			}
		})
	}
}

func TestStoreWritesPrivateFilesThatBelongTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	s := NewStore(dir, false)
	if _, err := s.Init("test", testLife); err != nil {
		t.Fatal(err)
	}
	host, err := s.IssueHost("edge-1", []string{"127.0.0.1"}, testLife)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.IssueNode("node-1", testLife); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	var names []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v (%v)", e.Name(), info.Mode(), err)
		}
		names = append(names, e.Name())
	}
	want := []string{"ca.crt", "ca.key", "host-edge-1.crt", "host-edge-1.key", "node-node-1.crt", "node-node-1.key"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	a, err := s.Authority()
	if err != nil {
		t.Fatal(err)
	}
	certPEM, err := os.ReadFile(host.CertFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(a, parse(t, certPEM), x509.ExtKeyUsageServerAuth, net.IPv4(127, 0, 0, 1).String()); err != nil {
		t.Error(err)
	}
}

func TestStoreRefusesToReplaceFilesUnlessTold(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir, false)
	if _, err := s.Init("test", testLife); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(s.AuthorityFile())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Init("test", testLife); !errdefs.IsAlreadyExists(err) || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("second Init: %v", err)
	}
	if after, _ := os.ReadFile(s.AuthorityFile()); !cmp.Equal(before, after) {
		t.Error("the refused Init changed the authority")
	}
	if _, err := NewStore(dir, true).Init("test", testLife); err != nil {
		t.Error(err)
	}
	if after, _ := os.ReadFile(s.AuthorityFile()); cmp.Equal(before, after) {
		t.Error("Init with overwrite kept the old authority")
	}
}

func TestAKeyIsReplacedOnlyTogetherWithItsCertificate(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir, true)
	if _, err := s.Init("test", testLife); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "ca.key")
	before, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	// A directory cannot be replaced by a file.
	if err := errors.Join(os.Remove(s.AuthorityFile()), os.Mkdir(s.AuthorityFile(), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Init("test", testLife); err == nil || !strings.Contains(err.Error(), "ca.crt") {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadFile(key); err != nil || !cmp.Equal(before, after) {
		t.Errorf("the key of the former authority is lost (%v)", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestIssuingWithoutAnAuthorityIsNotFound(t *testing.T) {
	dir := t.TempDir()
	if _, err := NewStore(dir, false).IssueNode("n", testLife); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v", err)
	}
}

func FuzzParseAuthority(f *testing.F) {
	a, err := NewAuthority("test", testLife)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(a.Pair().CertificatePEM, a.Pair().KeyPEM)
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"), []byte{})
	f.Fuzz(func(t *testing.T, certPEM, keyPEM []byte) {
		a, err := ParseAuthority(certPEM, keyPEM)
		if (a == nil) == (err == nil) {
			t.Errorf("authority %v with error %v", a, err)
		}
	})
}

func TestFileThatRootReplacesKeepsItsOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	path := filepath.Join(t.TempDir(), "ledger")
	if err := WriteFile(path, []byte("1")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 1234, 2345); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(path, []byte("2")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t); owner.Uid != 1234 || owner.Gid != 2345 || info.Mode().Perm() != 0o600 {
		t.Errorf("%+v", owner)
	}
}

func TestKeyThatWouldTakeLongToCheckIsRefusedByItsKind(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	der[len(der)-1]++ // the signature is wrong as well, which nobody is to find out
	_, err = ParseRequest(pem.EncodeToMemory(&pem.Block{Type: pemRequest, Bytes: der}))
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "not an ECDSA P-256 one") {
		t.Errorf("got %v", err)
	}
}

// TestWhatAKilledProcessLeftIsRemoved: it may be a key.
func TestWhatAKilledProcessLeftIsRemoved(t *testing.T) {
	for name, write := range map[string]func(dir string) error{
		"store": func(dir string) error {
			_, err := NewStore(dir, false).Init("test", Lifetime{From: time.Now(), Validity: time.Hour})
			return err
		},
		"file": func(dir string) error { return WriteFile(filepath.Join(dir, "file"), []byte("x")) },
	} {
		dir := t.TempDir()
		left, other := filepath.Join(dir, ".tmp-123"), filepath.Join(dir, ".other")
		for _, path := range []string{left, other} {
			if err := os.WriteFile(path, []byte("a key"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := write(dir); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: it is still there: %v", name, err)
		}
		if _, err := os.Lstat(other); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWritersOfOneDirectoryWaitForEachOther: none removes what another one is about to rename.
func TestWritersOfOneDirectoryWaitForEachOther(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if err := WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
