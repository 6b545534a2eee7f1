// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
)

// token reads the token of a pod, or the error.
func token1h(t *testing.T, o *Objects, uid string) string {
	t.Helper()
	got, err := o.Token(t.Context(), podOf(uid), "", 0)
	if err != nil {
		return "error: " + err.Error()
	}
	return got
}

func TestTokenIsBoundToItsPod(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *api, o *Objects) {
		if _, err := o.Token(t.Context(), podOf("a"), "vault", 7200); err != nil {
			t.Fatal(err)
		}
		want := authv1.TokenRequestSpec{
			Audiences: []string{"vault"}, ExpirationSeconds: ptr.To[int64](7200),
			BoundObjectRef: &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "pod-a", UID: "a"},
		}
		if diff := cmp.Diff(want, a.requests[0].Spec); diff != "" {
			t.Errorf("request (-want +got):\n%s", diff)
		}
	})
}

func TestTokenIsAskedForOnceForEachUse(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *api, o *Objects) {
		for range 2 {
			for _, use := range []struct {
				uid, audience string
				seconds       int64
			}{{"a", "", 0}, {"a", "", 3600}, {"b", "", 0}, {"a", "vault", 0}, {"a", "", 7200}} {
				if _, err := o.Token(t.Context(), podOf(use.uid), use.audience, use.seconds); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got := a.asked(); got != 4 {
			t.Errorf("%d requests, want 4: an hour is the default", got)
		}
	})
}

func TestTokenIsRenewedInTimeAndItsPodTold(t *testing.T) {
	for _, tc := range []struct {
		name         string
		seconds      int64
		life         int64
		skew         time.Duration
		renewedAfter time.Duration
	}{
		{name: "at four fifths of its life", seconds: 3600, renewedAfter: 48*time.Minute - time.Second},
		{name: "after a day", seconds: 7 * 86400, renewedAfter: 24*time.Hour - time.Second},
		{name: "by what the API granted", seconds: 86400, life: 600, renewedAfter: 8*time.Minute - time.Second},
		{name: "and not too soon in a very short life", seconds: 600, life: 4, renewedAfter: 2400 * time.Millisecond},
		{name: "by our clock", seconds: 3600, skew: -2 * time.Hour, renewedAfter: 48*time.Minute - time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, a *api, o *Objects) {
				a.life, a.skew = tc.life, tc.skew
				read := func() string {
					got, err := o.Token(t.Context(), podOf("a"), "", tc.seconds)
					if err != nil {
						t.Fatal(err)
					}
					return got
				}
				if got := read(); got != "sa-1" {
					t.Fatalf("token %q, want sa-1", got)
				}
				time.Sleep(tc.renewedAfter - time.Second)
				if got := read(); got != "sa-1" || a.news() != "" {
					t.Errorf("token %q before it was due, want sa-1 and nobody told", got)
				}
				time.Sleep(time.Second)
				if told := a.news(); told != "a" {
					t.Errorf("told %q, want a", told)
				}
				if got := read(); got != "sa-2" {
					t.Errorf("token %q, want sa-2", got)
				}
			})
		})
	}
}

func TestTokenOfAnyLifeIsRenewedNoSoonerThanNeeded(t *testing.T) {
	for _, tc := range []struct {
		seconds   int64
		life, age time.Duration
	}{
		{600, 10 * time.Minute, 8 * time.Minute},
		{7 * 86400, 7 * 24 * time.Hour, 24 * time.Hour},
		{1 << 32, 1 << 32 * time.Second, 24 * time.Hour}, // the most that a pod may ask for
		{math.MaxInt64, 1 << 32 * time.Second, 24 * time.Hour},
	} {
		if life, age := lifeOf(tc.seconds); life != tc.life || age != tc.age {
			t.Errorf("%d seconds: good for %v and renewed after %v, want %v and %v", tc.seconds, life, age, tc.life, tc.age)
		}
	}
}

func TestOldTokenIsUsedUntilItExpiresWhenRenewingFails(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *api, o *Objects) {
		token1h(t, o, "a")
		a.fail(errAway)
		time.Sleep(time.Hour - time.Second)
		if got := token1h(t, o, "a"); got != "sa-1" {
			t.Errorf("token %q a second before it expires, want sa-1", got)
		}
		time.Sleep(2 * time.Second)
		if got := token1h(t, o, "a"); !strings.HasPrefix(got, "error: failed to fetch token: ") {
			t.Errorf("token %q after it expired, want an error", got)
		}
		time.Sleep(10 * time.Hour)
		a.fail(nil)
		time.Sleep(2 * maxTokenRetry)
		if got := a.news(); got != "a" {
			t.Errorf("told %q within a minute of the API's return, want a", got)
		}
		if got := token1h(t, o, "a"); got != "sa-2" {
			t.Errorf("token %q, want sa-2", got)
		}
	})
}

func TestRefusedTokenKeepsTheClassOfTheAnswer(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *api, o *Objects) {
		a.fail(apierrors.NewForbidden(v1.Resource("serviceaccounts"), "sa", errors.New("no relationship")))
		if _, err := o.Token(t.Context(), podOf("a"), "", 0); !errdefs.IsPermissionDenied(err) {
			t.Errorf("error %v, want PermissionDenied", err)
		}
	})
}

func TestForgottenTokenIsNotRenewed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *api, o *Objects) {
		token1h(t, o, "a")
		token1h(t, o, "b")
		o.Forget("a")
		time.Sleep(time.Hour)
		if told, asked := a.news(), a.asked(); told != "b" || asked != 3 {
			t.Errorf("told %q after %d requests, want b after 3", told, asked)
		}
	})
}
