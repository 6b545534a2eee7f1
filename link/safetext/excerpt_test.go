// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestExcerptLeavesTheBeginningAndTheEnd(t *testing.T) {
	got := Excerpt("dialing x: " + strings.Repeat("ü", 100_000) + "\nand not for 192.0.2.1")
	if !strings.HasPrefix(got, "dialing x: üü") || !strings.HasSuffix(got, "ü and not for 192.0.2.1") || !strings.Contains(got, " … ") ||
		len(got) > maxExcerpt || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if got := Excerpt("short"); got != "short" {
		t.Errorf("%q", got)
	}
}

func TestErrorInOtherWordsIsTheSameError(t *testing.T) {
	long := fmt.Errorf("%s: %w", strings.Repeat("x", 100_000), io.ErrUnexpectedEOF)
	for what, got := range map[string]error{"short": ShortError(long), "excerpt": ExcerptError(long)} {
		if !errors.Is(got, io.ErrUnexpectedEOF) || len(got.Error()) > maxExcerpt {
			t.Errorf("%s: %d bytes: %v", what, len(got.Error()), got)
		}
	}
	if got := ExcerptError(fmt.Errorf("a\nb: %w", io.EOF)); got.Error() != "a b: EOF" || !errors.Is(got, io.EOF) {
		t.Errorf("%v", got)
	}
	if got := ExcerptError(io.EOF); got != io.EOF { //nolint:errorlint // it must be the very same
		t.Errorf("%v became something else", got)
	}
	if ExcerptError(nil) != nil || ShortError(nil) != nil {
		t.Error("nothing became an error")
	}
}
