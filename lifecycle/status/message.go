// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"unicode/utf8"
)

// Limits of termination messages, in bytes, the kubelet's own.
const (
	// maxMessageFile is how much of the end of a message file is read.
	maxMessageFile = 4096
	// maxMessageLog is how much of the end of a log stands in for a missing message, maxMessageLogLines how many lines.
	maxMessageLog      = 2048
	maxMessageLogLines = 80
	// maxMessagesPod is what the messages of a pod's containers share: each may have its part of it.
	maxMessagesPod = 12 * 1024
)

// joinMessages puts what the container left behind what the runtime said.
func joinMessages(fromRuntime, fromContainer string) string {
	if fromRuntime != "" && fromContainer != "" {
		return fromRuntime + ": " + fromContainer
	}
	return fromRuntime + fromContainer
}

// validMessage makes any bytes acceptable to the API, which takes only UTF-8, and cuts them to a length without
// cutting a character in two.
func validMessage(s string, limit int) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// tail returns the last limit bytes, without the remainder of a character that was cut in two.
func tail(b []byte, limit int) []byte {
	if len(b) <= limit {
		return b
	}
	return trimCutRune(b[len(b)-limit:])
}

// trimCutRune removes the continuation bytes at the beginning of text that was cut out of a longer one.
func trimCutRune(b []byte) []byte {
	for i := 0; i < utf8.UTFMax-1 && len(b) > 0 && !utf8.RuneStart(b[0]); i++ {
		b = b[1:]
	}
	return b
}
