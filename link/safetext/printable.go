// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"strings"
	"unicode"
)

// Printable puts a blank in place of everything that could end a line or confuse a terminal or a log.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
