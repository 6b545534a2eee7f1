// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"strings"
	"testing"
)

func TestPrintableLeavesNothingThatEndsALineOrMovesACursor(t *testing.T) {
	const want = "über [31m red  end "
	if got := Printable("über\x1b[31m red\r\nend\u2028"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestShortLeavesTheBeginning(t *testing.T) {
	if got := Short("a\nb"); got != "a b" {
		t.Errorf("%q", got)
	}
	got := Short("x" + strings.Repeat("ü", 10_000))
	if !strings.HasPrefix(got, "xüü") || !strings.HasSuffix(got, "ü…") || len(got) > maxShort+len("…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
