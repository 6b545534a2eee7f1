// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strings"
	"unicode/utf8"
)

// maxMessagesPod is what the termination messages of a pod's containers share, in bytes: each may have its part of it.
// It is the kubelet's limit.
const maxMessagesPod = 12 * 1024

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
