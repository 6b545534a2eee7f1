// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package safetext

import (
	"strings"
	"unicode"
)

// maxShort is how many bytes Short leaves.
const maxShort = 300

// Printable puts a blank in place of everything that could end a line or confuse a terminal or a log.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// Short is the beginning of a text, printable: enough to be understood, and too little to fill a log or a message with.
func Short(text string) string {
	if len(text) > maxShort {
		text = strings.ToValidUTF8(text[:maxShort], "") + "…"
	}
	return Printable(text)
}
