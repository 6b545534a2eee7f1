// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/pki"
)

func TestAnswerThatWasLostIsGivenAgainForTheSameKeyOnly(t *testing.T) {
	l, clk := testLedger(t)
	d := NewDesk(DeskOptions{Ledger: l, Validity: time.Hour})
	token := create(t, l)
	key := newKey(t)
	ask := func(key []byte) (string, error) {
		cert, _, err := d.decide(t.Context(), question{TokenID: token.ID, Secret: token.secret[:], Request: requestFor(t, key, "")}, nil, "")
		if err != nil {
			return "", err
		}
		return l.Check(cert)
	}
	first, err := ask(key)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ask(key)
	if err != nil || again != first || first == "" {
		t.Errorf("asking again: %q and %q, %v", first, again, err)
	}
	if _, err := ask(newKey(t)); !errors.Is(err, errUsedToken) {
		t.Errorf("somebody who read the token: %v", err)
	}
	if _, _, err := l.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := ask(key); !errors.Is(err, errUsedToken) {
		t.Errorf("after the revocation: %v", err)
	}
	token = create(t, l)
	if _, err := ask(key); err != nil {
		t.Fatal(err)
	}
	clk.Step(time.Hour + time.Second)
	if _, err := ask(key); !errors.Is(err, errExpiredToken) {
		t.Errorf("after its time: %v", err)
	}
}

func TestStrangersLearnNothingAndCostLittle(t *testing.T) {
	l, _ := testLedger(t)
	d := NewDesk(DeskOptions{Ledger: l, Validity: time.Hour})
	for name, asked := range map[string]question{
		"another name":          {TokenID: "0123456789ab", Secret: []byte("x"), Request: request(t, "edge-2")},
		"a request to parse":    {TokenID: "0123456789ab", Secret: []byte("x"), Request: []byte("x")},
		"the secret of nothing": {TokenID: create(t, l).ID, Request: []byte("x")},
	} {
		if _, _, err := d.decide(t.Context(), asked, nil, ""); !errors.Is(err, errUnknownToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := os.Remove(l.dir + "/" + ledgerFile); err != nil {
		t.Fatal(err)
	}
	_, _, err := d.decide(t.Context(), question{TokenID: "0123456789ab"}, nil, "")
	if err == nil || strings.Contains(tellable(err), l.dir) {
		t.Errorf("a stranger is told %q", tellable(err))
	}
}

func TestRenewalsWithoutEndDoNotMakeTheLedgerLarge(t *testing.T) {
	l, _ := testLedger(t)
	d := NewDesk(DeskOptions{Ledger: l, Validity: time.Hour})
	cert, err := l.join(t, create(t, l), "")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * maxCertificates {
		newest, _, err := d.decide(t.Context(), question{Request: request(t, "")}, cert, "")
		if err == nil {
			_, err = l.Check(newest)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if content, err := l.Read(); err != nil || len(content.Certificates) != maxCertificates {
		t.Errorf("%d certificates, %v", len(content.Certificates), err)
	}
	if _, err := l.Check(cert); err != nil {
		t.Errorf("the one in use: %v", err)
	}
}

func TestClockThatIsWrongForAWhileLocksNobodyOut(t *testing.T) {
	l, clk := testLedger(t)
	cert, err := l.join(t, create(t, l), "")
	if err != nil {
		t.Fatal(err)
	}
	now := clk.Now()
	clk.SetTime(now.Add(5 * 365 * 24 * time.Hour))
	create(t, l)
	if content, err := l.Read(); err != nil || len(content.Good(clk.Now())) != 0 {
		t.Errorf("what has expired is called good: %v", err)
	}
	clk.SetTime(now)
	if _, err := l.Check(cert); err != nil {
		t.Error(err)
	}
}

func TestLastCertificatesOfAnAuthorityEndWithIt(t *testing.T) {
	l, clk := testLedger(t)
	clk.Step(authorityValidity - 10*time.Minute)
	cert, err := l.join(t, create(t, l), "")
	if err != nil || cert.NotAfter.After(l.authority.Certificate().NotAfter) {
		t.Errorf("%v", err)
	}
}

func TestKeeperRenewsNowAndThenWhateverTheClockSays(t *testing.T) {
	for name, skew := range map[string]time.Duration{"behind": -40 * 24 * time.Hour, "ahead": 25 * 24 * time.Hour, "far ahead": 4000 * 24 * time.Hour} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			const validity = 30 * 24 * time.Hour
			authority, err := pki.NewAuthority("test", pki.Lifetime{From: time.Now().Add(-8000 * 24 * time.Hour), Validity: 16000 * 24 * time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			// The node's clock is off by the skew, in the other direction.
			issue := func() *Identity { return issuedAt(t, authority, time.Now().Add(-skew), validity) }
			files := Files{Dir: dir, Clock: clock.RealClock{}}
			if err := files.Write(t.Context(), issue()); err != nil {
				t.Fatal(err)
			}
			renewals := 0
			k := NewKeeper(KeeperOptions{Files: files, Renew: func(context.Context, string) (*Identity, error) {
				renewals++
				return issue(), nil
			}})
			ctx, cancel := context.WithTimeout(t.Context(), validity)
			defer cancel()
			k.Run(ctx)
			if renewals == 0 || renewals > renewalsPerLife+1 {
				t.Errorf("%s: %d renewals", name, renewals)
			}
		})
	}
}

func TestReasonsForTheHostAreTold(t *testing.T) {
	for err, told := range map[error]bool{
		fmt.Errorf("%w, long ago", errUsedToken): true, errOtherName: true, errRevoked: true, errNothingShown: true, errors.New("disk full"): false, context.Canceled: false,
	} {
		if got := strings.Contains(tellable(err), err.Error()); got != told {
			t.Errorf("%v is told: %v", err, got)
		}
	}
}
