// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package safetext

import "testing"

func TestPrintableLeavesNothingThatEndsALineOrMovesACursor(t *testing.T) {
	const want = "über [31m red  end "
	if got := Printable("über\x1b[31m red\r\nend\u2028"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
