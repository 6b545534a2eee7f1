// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package safetext

import "strings"

const (
	// maxExcerpt is how many bytes Excerpt leaves: room for a line of known_hosts with an RSA key of 8192 bits, and next to nothing of
	// the 256 KiB that an object may have in all of its annotations.
	maxExcerpt = 2 << 10
	// excerptEnd is how many of them are the end of the text.
	excerptEnd = 300
	gap        = " … "
)

// Excerpt is the beginning and the end of a text, printable. Errors that were wrapped have what was done at their beginning, and often
// what to do at their end.
func Excerpt(text string) string {
	if len(text) > maxExcerpt {
		begin, end := text[:maxExcerpt-excerptEnd-len(gap)], text[len(text)-excerptEnd:]
		text = strings.ToValidUTF8(begin, "") + gap + strings.ToValidUTF8(end, "")
	}
	return Printable(text)
}

// ShortError is an error with the Short text of another one, which it is in all other respects. One that is short and printable is
// returned as it is.
func ShortError(err error) error { return say(err, Short) }

// ExcerptError does the same with Excerpt.
func ExcerptError(err error) error { return say(err, Excerpt) }

func say(err error, what func(string) string) error {
	if err == nil {
		return nil
	}
	full := err.Error()
	text := what(full)
	if text == full {
		return err
	}
	return &said{text: text, err: err}
}

// said is an error in other words.
type said struct {
	text string
	err  error
}

// Error returns these words.
func (s *said) Error() string { return s.text }

// Unwrap returns the error.
func (s *said) Unwrap() error { return s.err }
