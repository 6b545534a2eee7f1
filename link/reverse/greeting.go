// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tombolo-dev/tombolo/link/safetext"
)

// Protocol is what both ends of a link name as their application protocol (ALPN) in the handshake. After it the node speaks
// first: a greeting, and then as a client of HTTP/2.
const Protocol = "tombolo-link/1"

const (
	greetingPrefix = "tombolo-node 1 "
	welcome        = "welcome"
	refused        = "refused "
	// maxGreeting bounds a greeting, its end included.
	maxGreeting = 1024
)

// greet tells the host that it is welcome, or why not.
func greet(w io.Writer, refusal error) error {
	text := welcome
	if refusal != nil {
		text = refused + safetext.Printable(refusal.Error())
	}
	line := greetingPrefix + text
	_, err := io.WriteString(w, line[:min(len(line), maxGreeting-1)]+"\n")
	return err
}

// ReadGreeting reads what the node says first, and nothing beyond it. An error says why the host is not welcome, or what
// else is wrong.
func ReadGreeting(r io.Reader) error {
	var line strings.Builder
	for one := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, one); err != nil {
			if errors.Is(err, io.EOF) {
				return errors.New("the node closed the connection without a word")
			}
			return err
		}
		if one[0] == '\n' {
			break
		}
		if line.Len() == maxGreeting {
			return errors.New("the other end does not speak as a node does")
		}
		line.WriteByte(one[0])
	}
	text, ok := strings.CutPrefix(line.String(), greetingPrefix)
	if !ok {
		return fmt.Errorf("the other end does not speak as a node of this version does: %q", line.String()[:min(line.Len(), 100)])
	}
	if why, ok := strings.CutPrefix(text, refused); ok {
		return fmt.Errorf("the node refuses this host: %s", safetext.Printable(why))
	}
	return nil
}
