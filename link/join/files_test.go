// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/pki"
)

func testFiles(t *testing.T) (Files, *pki.Authority) {
	t.Helper()
	authority, err := pki.NewAuthority("test", pki.Lifetime{From: time.Now(), Validity: 1000 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return Files{Dir: filepath.Join(t.TempDir(), "link"), Clock: clock.RealClock{}}, authority
}

func TestKeyIsTheSameUntilItsCertificateIsKept(t *testing.T) {
	files, authority := testFiles(t)
	wish := func() []byte {
		t.Helper()
		key, err := files.WishKey(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	first := wish()
	if again := wish(); !bytes.Equal(first, again) {
		t.Error("who is interrupted asks with another key")
	}
	if err := files.Write(t.Context(), issued(t, authority, time.Hour)); err != nil {
		t.Fatal(err)
	}
	second := wish()
	if bytes.Equal(first, second) {
		t.Error("a key is used for two certificates")
	}
	if err := os.WriteFile(files.wishKey(), second[:20], 0o600); err != nil {
		t.Fatal(err)
	}
	if third := wish(); len(third) < 100 {
		t.Errorf("half a key is used: %q", third)
	}
	for path, mode := range map[string]os.FileMode{files.Dir: 0o700, files.Pair(): 0o600, files.wishKey(): 0o600, files.Authority(): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
}

func TestNoMomentExistsInWhichCertificateAndKeyDoNotFit(t *testing.T) {
	files, authority := testFiles(t)
	if err := files.Write(t.Context(), issued(t, authority, time.Hour)); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 100 {
			if err := files.Write(t.Context(), issued(t, authority, time.Hour)); err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		data, err := os.ReadFile(files.Pair()) // as after a kill at this moment
		if err == nil {
			_, err = tls.X509KeyPair(data, data)
		}
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestRenewalDoesNotReplaceWhatTheHostJoinedWithMeanwhile(t *testing.T) {
	files, authority := testFiles(t)
	if err := files.Write(t.Context(), issued(t, authority, time.Hour)); err != nil {
		t.Fatal(err)
	}
	former, err := files.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	renewed := issued(t, authority, time.Hour)
	if err := files.Write(t.Context(), issued(t, authority, time.Hour)); err != nil {
		t.Fatal(err)
	}
	joined, err := files.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	if err := files.Renew(t.Context(), renewed, former); err != nil {
		t.Fatal(err)
	}
	if now, err := files.Leaf(); err != nil || !now.Equal(joined) {
		t.Errorf("it was replaced: %v", err)
	}
}

func TestLockThatIsNotGivenBackIsNamed(t *testing.T) {
	l, _ := testLedger(t)
	l.clock = clock.RealClock{}
	path := filepath.Join(l.dir, lockFile)
	held, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := l.CreateToken(ctx, time.Hour); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	create(t, l)
}

func TestAnswerIsTakenByAHostWhoseClockIsBehind(t *testing.T) {
	_, authority := testFiles(t)
	key := newKey(t)
	asked, err := pki.ParseRequest(requestFor(t, key, ""))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.SignHost("edge-1", asked, pki.Lifetime{From: time.Now().Add(48 * time.Hour), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	said := answer{Certificate: pki.EncodeCertificate(cert), Authority: authority.Pair().CertificatePEM}
	if id, err := newIdentity(said, Wish{Name: "edge-1", Key: key}); err != nil || id.Name != "edge-1" {
		t.Errorf("%v, %v", id, err)
	}
	if _, err := newIdentity(said, Wish{Name: "edge-2", Key: key}); err == nil {
		t.Error("another name")
	}
	if _, err := newIdentity(said, Wish{Key: newKey(t)}); err == nil {
		t.Error("another key")
	}
	_, other := testFiles(t)
	said.Authority = other.Pair().CertificatePEM
	if _, err := newIdentity(said, Wish{Key: key}); err == nil {
		t.Error("another authority")
	}
}

func TestTokenThatWasUsedIsNotDeleted(t *testing.T) {
	l, _ := testLedger(t)
	token := create(t, l)
	if _, err := l.join(t, token, ""); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteToken(t.Context(), token.ID); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "tombolo token revoke") {
		t.Errorf("got %v", err)
	}
}
