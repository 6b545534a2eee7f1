// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"go.uber.org/goleak"

	"github.com/tombolo-dev/tombolo/link/pki"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func testToken(t testing.TB) Token {
	t.Helper()
	authority, err := pki.NewAuthority("test", pki.Lifetime{From: time.Now(), Validity: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	token, err := newToken(authority.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokenIsReadBackAndDoesNotPrintItsSecret(t *testing.T) {
	token := testToken(t)
	again, err := ParseToken(token.Text())
	if err != nil || again != token {
		t.Errorf("%v, %v", again, err)
	}
	secret := encoding.EncodeToString(token.secret[:])
	if text := fmt.Sprint(token, again); strings.Contains(text, secret) || !strings.Contains(text, token.ID) {
		t.Error(text)
	}
	if other := testToken(t); other.ID == token.ID || other.secret == token.secret {
		t.Error("two tokens are alike")
	}
	got, endpoint, err := ParseInvitation(token.Text() + "@node.example.com:8470")
	if err != nil || got != token || endpoint != "node.example.com:8470" {
		t.Errorf("%v, %q, %v", got, endpoint, err)
	}
}

func TestWhatIsNoTokenIsRefusedWithoutShowingIt(t *testing.T) {
	token := testToken(t)
	text := token.Text()
	for _, wrong := range []string{"", "x", text[:len(text)-1], text + "A", text + ".more", "tombolo2" + text[8:], strings.ReplaceAll(text, ".", "-"), text + "=", " " + text} {
		_, err := ParseToken(wrong)
		if !errdefs.IsInvalidArgument(err) || strings.Contains(err.Error(), encoding.EncodeToString(token.secret[:])) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	for _, wrong := range []string{text, text + "@", "@node:1"} {
		if _, _, err := ParseInvitation(wrong); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(testToken(f).Text())
	f.Add("tombolo1...")
	f.Fuzz(func(t *testing.T, text string) {
		token, err := ParseToken(text)
		if err == nil && token.Text() != text {
			t.Errorf("%q became %q", text, token.Text())
		}
	})
}
