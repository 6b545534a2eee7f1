// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import "strings"

// Expand replaces each $(NAME) by the value of NAME in the first of values that has one. A reference to a name without a value stays as it is written, and
// so does everything else that only looks like one; $$ stands for a single $ and so protects what follows it. Values
// are inserted as they are and not expanded again.
func Expand(s string, values ...map[string]string) string {
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(s, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if after, escaped := strings.CutPrefix(rest, "$"); escaped {
			out.WriteByte('$')
			s = after
			continue
		}
		name, after, ok := reference(rest)
		if !ok {
			out.WriteByte('$')
			s = rest
			continue
		}
		out.WriteString(valueOf(name, values))
		s = after
	}
}

// valueOf returns the value of a name, or the reference to it if it has none.
func valueOf(name string, values []map[string]string) string {
	for _, m := range values {
		if value, known := m[name]; known {
			return value
		}
	}
	return "$(" + name + ")"
}

// References returns the names that are referred to, in order, each as often as it is.
func References(s string) []string {
	var names []string
	for {
		_, rest, found := strings.Cut(s, "$")
		if !found {
			return names
		}
		if after, escaped := strings.CutPrefix(rest, "$"); escaped {
			s = after
			continue
		}
		if name, after, ok := reference(rest); ok {
			names, rest = append(names, name), after
		}
		s = rest
	}
}

// reference reads "(NAME)" at the start of s. The name ends at the first closing parenthesis and may be anything, even
// empty: what is a valid name is not decided here.
func reference(s string) (name, after string, ok bool) {
	inner, opened := strings.CutPrefix(s, "(")
	if !opened {
		return "", "", false
	}
	return strings.Cut(inner, ")")
}
