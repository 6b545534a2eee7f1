// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tombolo-dev/tombolo/link/pki"
)

func testLedger(t *testing.T) (*Ledger, *clocktesting.FakeClock) {
	t.Helper()
	clk := clocktesting.NewFakeClock(time.Now())
	l, err := MakeLedger(filepath.Join(t.TempDir(), "join"), "edge-1", clk)
	if err != nil {
		t.Fatal(err)
	}
	return l, clk
}

func request(t *testing.T, name string) []byte {
	t.Helper()
	return requestFor(t, newKey(t), name)
}

func requestFor(t *testing.T, key []byte, name string) []byte {
	t.Helper()
	data, err := pki.NewRequest(key, name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func newKey(t *testing.T) []byte {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// join uses a token as a host would.
func (l *Ledger) join(t *testing.T, token Token, name string) (*x509.Certificate, error) {
	t.Helper()
	d := NewDesk(DeskOptions{Ledger: l, Validity: time.Hour})
	cert, _, err := d.decide(t.Context(), question{TokenID: token.ID, Secret: token.secret[:], Request: request(t, name)}, nil, "192.0.2.1:1")
	return cert, err
}

func create(t *testing.T, l *Ledger) Token {
	t.Helper()
	token, err := l.CreateToken(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestLedgerIsMadeOnceAndReadableOnlyByItsOwner(t *testing.T) {
	l, clk := testLedger(t)
	ca, cert, key := NodeFiles(l.dir, "edge-1")
	before, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := MakeLedger(l.dir, "edge-1", clk); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(ca); err != nil || string(after) != string(before) {
		t.Errorf("the authority was made anew: %v", err)
	}
	if _, err := MakeLedger(l.dir, "edge-2", clk); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), `for the host "edge-1" and not for "edge-2"`) {
		t.Errorf("of another host: %v", err)
	}
	for path, mode := range map[string]os.FileMode{l.dir: 0o700, ca: 0o600, cert: 0o600, key: 0o600, filepath.Join(l.dir, "ca.key"): 0o600, filepath.Join(l.dir, ledgerFile): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if _, err := OpenLedger(t.TempDir(), clk); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "start tombolo node with it first") {
		t.Errorf("an empty directory: %v", err)
	}
}

func TestTokenIsGoodForOneCertificateOfTheNodesOwnHost(t *testing.T) {
	l, _ := testLedger(t)
	token := create(t, l)
	if _, err := l.join(t, token, "edge-2"); !errors.Is(err, errOtherName) || resultOf(err) != resultRefusedName {
		t.Errorf("another name: %v", err)
	}
	// That did not use it up.
	cert, err := l.join(t, token, "")
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.CommonName != "edge-1" || len(cert.DNSNames) != 1 || cert.DNSNames[0] != "edge-1" || cert.IsCA ||
		len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
		t.Errorf("%+v", cert)
	}
	if _, err := l.Check(cert); err != nil {
		t.Error(err)
	}
	if _, err := l.join(t, token, ""); !errors.Is(err, errUsedToken) || !strings.Contains(err.Error(), "by 192.0.2.1:1") || resultOf(err) != resultRefusedToken {
		t.Errorf("a second time: %v", err)
	}
}

func TestTokensThatAreWrongExpiredOrDeletedAreRefused(t *testing.T) {
	l, clk := testLedger(t)
	good, forged := create(t, l), create(t, l)
	forged.secret[0]++
	deleted := create(t, l)
	if err := l.DeleteToken(t.Context(), deleted.ID); err != nil {
		t.Fatal(err)
	}
	if err := l.DeleteToken(t.Context(), deleted.ID); !errdefs.IsNotFound(err) {
		t.Errorf("deleted twice: %v", err)
	}
	clk.Step(time.Hour + time.Second)
	for name, tc := range map[string]struct {
		token Token
		want  error
	}{
		"expired": {good, errExpiredToken}, "another secret": {forged, errUnknownToken}, "deleted": {deleted, errUnknownToken}, "of another node": {testToken(t), errUnknownToken},
	} {
		if cert, err := l.join(t, tc.token, ""); !errors.Is(err, tc.want) || cert != nil || resultOf(err) != resultRefusedToken {
			t.Errorf("%s: %v", name, err)
		}
	}
	clk.Step(rememberUsed)
	_ = create(t, l)
	if content, err := l.Read(); err != nil || len(content.Tokens) != 1 {
		t.Errorf("old tokens stay: %+v, %v", content, err)
	}
}

func TestTokenThatManyUseAtOnceIsGoodForOne(t *testing.T) {
	l, _ := testLedger(t)
	l.clock = clock.RealClock{} // they wait for each other
	token := create(t, l)
	var wg sync.WaitGroup
	got := make(chan error, 20)
	for range cap(got) {
		wg.Go(func() {
			again := &Ledger{dir: l.dir, clock: l.clock, authority: l.authority} // as another process would
			_, err := again.join(t, token, "")
			got <- err
		})
	}
	wg.Wait()
	close(got)
	joined := 0
	for err := range got {
		if err == nil {
			joined++
		} else if !errors.Is(err, errUsedToken) {
			t.Error(err)
		}
	}
	if joined != 1 {
		t.Errorf("%d joined", joined)
	}
}

func TestCertificateIsRenewedUntilItIsRevoked(t *testing.T) {
	l, clk := testLedger(t)
	d := NewDesk(DeskOptions{Ledger: l, Validity: time.Hour})
	first, err := l.join(t, create(t, l), "")
	if err != nil {
		t.Fatal(err)
	}
	clk.Step(time.Minute)
	second, result, err := d.decide(t.Context(), question{Request: request(t, "edge-1")}, first, "")
	if err != nil || result != resultRenewed || !second.NotAfter.After(first.NotAfter) {
		t.Fatalf("%v, %s, %v", second, result, err)
	}
	for _, cert := range []*x509.Certificate{first, second} {
		if _, err := l.Check(cert); err != nil {
			t.Error(err)
		}
	}
	unused := create(t, l)
	certificates, tokens, err := l.Revoke(t.Context())
	if err != nil || certificates != 2 || tokens != 1 {
		t.Errorf("revoked %d, %d, %v", certificates, tokens, err)
	}
	for _, cert := range []*x509.Certificate{first, second} {
		if _, err := l.Check(cert); !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), "join again with a new token") {
			t.Errorf("after the revocation: %v", err)
		}
		if _, _, err := d.decide(t.Context(), question{Request: request(t, "")}, cert, ""); !errors.Is(err, errRevoked) || resultOf(err) != resultRefusedCertificate {
			t.Errorf("a renewal after the revocation: %v", err)
		}
	}
	if _, err := l.join(t, unused, ""); !errors.Is(err, errUnknownToken) {
		t.Errorf("a token after the revocation: %v", err)
	}
	again, err := l.join(t, create(t, l), "")
	if err == nil {
		_, err = l.Check(again)
	}
	if err != nil {
		t.Errorf("joining again: %v", err)
	}
}

func TestRenewalIsForTheSameNameAndNeedsACertificate(t *testing.T) {
	l, _ := testLedger(t)
	d := NewDesk(DeskOptions{Ledger: l, Validity: time.Hour})
	cert, err := l.join(t, create(t, l), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.decide(t.Context(), question{Request: request(t, "edge-2")}, cert, ""); !errors.Is(err, errOtherName) {
		t.Errorf("a renewal for another name: %v", err)
	}
	if _, _, err := d.decide(t.Context(), question{Request: request(t, "")}, nil, ""); !errors.Is(err, errNothingShown) || resultOf(err) != resultRefusedCertificate {
		t.Errorf("without a certificate: %v", err)
	}
}

func TestCertificateOfAnotherHostIsNotRenewed(t *testing.T) {
	l, _ := testLedger(t)
	asked, err := pki.ParseRequest(request(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.authority.SignHost("edge-2", asked, pki.Lifetime{From: time.Now(), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	d := NewDesk(DeskOptions{Ledger: l, Validity: time.Hour})
	if _, _, err := d.decide(t.Context(), question{Request: request(t, "")}, other, ""); !errors.Is(err, errOtherName) || resultOf(err) != resultRefusedName {
		t.Errorf("got %v", err)
	}
}

func TestRequestsThatProveNothingAreRefused(t *testing.T) {
	l, _ := testLedger(t)
	token := create(t, l)
	for _, asked := range [][]byte{nil, []byte("x"), request(t, "")[:200]} {
		d := NewDesk(DeskOptions{Ledger: l, Validity: time.Hour})
		if _, _, err := d.decide(t.Context(), question{TokenID: token.ID, Secret: token.secret[:], Request: asked}, nil, ""); !errdefs.IsInvalidArgument(err) || resultOf(err) != resultFailed {
			t.Errorf("%q: %v", asked, err)
		}
	}
	if _, err := l.join(t, token, ""); err != nil {
		t.Errorf("they used the token up: %v", err)
	}
}

func TestLedgerThatCannotBeReadRefusesEverybody(t *testing.T) {
	l, _ := testLedger(t)
	cert, err := l.join(t, create(t, l), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(l.dir, ledgerFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Check(cert); err == nil || errdefs.IsPermissionDenied(err) {
		t.Errorf("got %v", err)
	}
	if _, err := l.CreateToken(t.Context(), time.Hour); err == nil {
		t.Error("a token was made")
	}
}

func FuzzReceiveQuestion(f *testing.F) {
	seed, err := json.Marshal(question{TokenID: "a", Secret: []byte("b"), Request: []byte("c")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(seed))
	f.Add(`{"x":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		var asked question
		if err := receive(strings.NewReader(text), &asked); err != nil && !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestMessageThatIsTooLongIsRefused(t *testing.T) {
	var asked question
	err := receive(strings.NewReader(`{"request":"`+strings.Repeat("A", maxMessage)+`"}`), &asked)
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "more than") {
		t.Errorf("got %v", err)
	}
}
