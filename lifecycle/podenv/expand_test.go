// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"regexp"
	"testing"
)

func TestExpandReplacesOnlyKnownReferences(t *testing.T) {
	values := map[string]string{
		"A": "1", "B": "two words", "EMPTY": "", "REF": "$(A)", "DOLLAR": "$", "a.b-c": "odd", "A$(A": "nested", "": "nameless",
	}
	for _, tc := range []struct{ in, want string }{
		{"", ""},
		{"plain", "plain"},
		{"$(A)", "1"},
		{"x$(A)y$(B)z", "x1ytwo wordsz"},
		{"$(A)$(A)", "11"},
		{"[$(EMPTY)]", "[]"},
		{"$(MISSING)", "$(MISSING)"},
		{"$(a)", "$(a)"}, // names are case-sensitive
		{"$(a.b-c)", "odd"},
		{"$( A)", "$( A)"},
		{"$()", "nameless"},
		{"$(REF)", "$(A)"}, // a value is not expanded again
		{"$(DOLLAR)(A)", "$(A)"},
		{"$$", "$"},
		{"$$$$", "$$"},
		{"$$(A)", "$(A)"},
		{"$$$(A)", "$1"},
		{"$$$$(A)", "$$(A)"},
		{"$$A", "$A"},
		{"$", "$"},
		{"A$", "A$"},
		{"$A", "$A"},
		{"${A}", "${A}"},
		{"$(", "$("},
		{"$(A", "$(A"},
		{"$(A$(A)", "nested"}, // the name runs to the first closing parenthesis
		{"$(X$(A)", "$(X$(A)"},
		{"$((A))", "$((A))"},
		{"$(A))", "1)"},
		{"$($$)", "$($$)"}, // no escaping inside a reference
		{"$ (A)", "$ (A)"},
		{"naïve $(A) \u00e9$", "naïve 1 \u00e9$"},
		{"$\u00e9$(A)", "$\u00e91"},
		{"line\n$(A)\n$(MIS\nSING)", "line\n1\n$(MIS\nSING)"},
	} {
		if got := Expand(tc.in, values); got != tc.want {
			t.Errorf("Expand(%q) = %q, want %q", tc.in, got, tc.want)
		}
	}
}

// FuzzExpand compares the parser with the same grammar written as a regular expression.
func FuzzExpand(f *testing.F) {
	for _, s := range []string{"", "$(A)", "$$(A)", "$(A", "$($(A))", "x$", "$$$(B)$", "\xff$(\xff)"} {
		f.Add(s, "A", "1")
	}
	grammar := regexp.MustCompile(`(?s)\$\$|\$\([^)]*\)`)
	f.Fuzz(func(t *testing.T, in, name, value string) {
		values := map[string]string{name: value}
		want := grammar.ReplaceAllStringFunc(in, func(m string) string {
			if m == "$$" {
				return "$"
			}
			if v, ok := values[m[2:len(m)-1]]; ok {
				return v
			}
			return m
		})
		if got := Expand(in, values); got != want {
			t.Errorf("Expand(%q) with %q=%q: %q, want %q", in, name, value, got, want)
		}
	})
}
