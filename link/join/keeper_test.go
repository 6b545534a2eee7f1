// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/pki"
)

// issued makes what a host gets at a time.
func issued(t *testing.T, authority *pki.Authority, validity time.Duration) *Identity {
	t.Helper()
	return issuedAt(t, authority, time.Now(), validity)
}

func issuedAt(t *testing.T, authority *pki.Authority, from time.Time, validity time.Duration) *Identity {
	t.Helper()
	key := newKey(t)
	asked, err := pki.ParseRequest(requestFor(t, key, "edge-1"))
	if err != nil {
		t.Fatal(err)
	}
	cert, err := authority.SignHost("edge-1", asked, pki.Lifetime{From: from, Validity: validity})
	if err != nil {
		t.Fatal(err)
	}
	return &Identity{Authority: authority.Pair().CertificatePEM, Certificate: pki.EncodeCertificate(cert), Key: key, Name: "edge-1", NotAfter: cert.NotAfter}
}

func TestKeeperRenewsWhenAThirdIsLeftAndTriesAgainAfterAFailure(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.NewAuthority("test", pki.Lifetime{From: time.Now(), Validity: 1000 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		files := Files{Dir: dir, Clock: clock.RealClock{}}
		const validity = 30 * time.Hour
		if err := files.Write(t.Context(), issued(t, authority, validity)); err != nil {
			t.Fatal(err)
		}
		var fail atomic.Bool
		var mu sync.Mutex
		var asked []time.Duration
		times := func() []time.Duration { mu.Lock(); defer mu.Unlock(); return slices.Clone(asked) }
		var log strings.Builder
		begin := time.Now()
		k := NewKeeper(KeeperOptions{Files: files, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Renew: func(_ context.Context, name string) (*Identity, error) {
				mu.Lock()
				asked = append(asked, time.Since(begin))
				mu.Unlock()
				if name != "edge-1" {
					t.Errorf("for %q", name)
				}
				if fail.Load() {
					return nil, errors.New("away")
				}
				return issued(t, authority, validity), nil
			}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		time.Sleep(25 * time.Hour)
		synctest.Wait()
		if got := times(); len(got) != 1 || got[0] < 19*time.Hour || got[0] > 22*time.Hour {
			t.Fatalf("asked at %v", got)
		}
		leaf, err := files.Leaf()
		if err != nil || leaf.NotAfter.Sub(begin) < 48*time.Hour {
			t.Errorf("%v, %v", leaf.NotAfter, err)
		}
		fail.Store(true)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if n := len(times()); n < 50 || n > 250 {
			t.Errorf("asked %d times in the hours that were left", n)
		}
		cancel()
		<-done
		if !strings.Contains(log.String(), "was not renewed") || !strings.Contains(log.String(), "tombolo host join with a new token") {
			t.Error(log.String())
		}
	})
}

// jumping is a clock that is put forward, as that of a machine that was suspended: its timers do not notice.
type jumping struct {
	clock.RealClock
	by *atomic.Int64
}

func (j jumping) Now() time.Time { return j.RealClock.Now().Add(time.Duration(j.by.Load())) }

func TestKeeperNoticesThatTheClockWasPutForward(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		authority, err := pki.NewAuthority("test", pki.Lifetime{From: time.Now(), Validity: 10_000 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		clk := jumping{by: &atomic.Int64{}}
		files := Files{Dir: dir, Clock: clk}
		const validity = 30 * 24 * time.Hour
		if err := files.Write(t.Context(), issued(t, authority, validity)); err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		k := NewKeeper(KeeperOptions{Files: files, Renew: func(context.Context, string) (*Identity, error) {
			asked.Add(1)
			return issuedAt(t, authority, clk.Now(), validity), nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		if n := asked.Load(); n != 0 {
			t.Errorf("asked %d times before it was time", n)
		}
		clk.by.Store(int64(21 * 24 * time.Hour)) // nine days are left
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times within two hours of the end of a suspension", n)
		}
		time.Sleep(19 * 24 * time.Hour)
		synctest.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times while the new one is good", n)
		}
		time.Sleep(2 * 24 * time.Hour)
		synctest.Wait()
		if n := asked.Load(); n != 2 {
			t.Errorf("asked %d times when two thirds of its time are over", n)
		}
		cancel()
		<-done
	})
}

func TestHostThatHasNotJoinedIsToldSo(t *testing.T) {
	if _, err := (Files{Dir: t.TempDir()}).Leaf(); !errdefs.IsNotFound(err) || !strings.Contains(err.Error(), "has not joined a node") {
		t.Errorf("got %v", err)
	}
}
