// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/tombolo-dev/tombolo/link/safetext"
)

func TestGreetingSaysWhetherTheHostIsWelcomeAndNothingBeyondItIsRead(t *testing.T) {
	var buf bytes.Buffer
	if err := greet(&buf, nil); err != nil {
		t.Fatal(err)
	}
	buf.WriteString("PRI * HTTP/2.0")
	if err := ReadGreeting(&buf); err != nil || buf.String() != "PRI * HTTP/2.0" {
		t.Errorf("%v, left: %q", err, buf.String())
	}
	for _, reason := range []string{"another host has this name", "two\nlines\x1b[31m", strings.Repeat("long ", 1000)} {
		buf.Reset()
		if err := greet(&buf, errors.New(reason)); err != nil {
			t.Fatal(err)
		}
		if buf.Len() > maxGreeting {
			t.Errorf("%d bytes", buf.Len())
		}
		err := ReadGreeting(&buf)
		if err == nil || !strings.Contains(err.Error(), "refuses this host: "+safetext.Printable(reason)[:9]) || strings.ContainsAny(err.Error(), "\n\x1b") || buf.Len() > 0 {
			t.Errorf("%q: %v, left: %q", reason, err, buf.String())
		}
	}
}

func TestGreetingOfSomethingElseIsAnError(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "closed the connection without a word",
		"tombolo-node 1 welc":      "closed the connection without a word",
		"tombolo-node 2 welcome\n": "not speak as a node of this version",
		"SSH-2.0-OpenSSH_9.2\r\n":  "SSH-2.0",
		strings.Repeat("x", maxGreeting*2) + "\n": "does not speak as a node does",
	} {
		if err := ReadGreeting(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadGreeting(f *testing.F) {
	for _, seed := range []string{"tombolo-node 1 welcome\nPRI", "tombolo-node 1 refused why\n", "\n", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		err := ReadGreeting(r)
		rest, _ := io.ReadAll(r)
		line, _, found := bytes.Cut(data, []byte("\n"))
		if err == nil && (!bytes.HasPrefix(line, []byte(greetingPrefix)) || !found || len(rest) != len(data)-len(line)-1) {
			t.Errorf("%q is a welcome, and %q is left", data, rest)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\n\r\x1b") {
			t.Errorf("%q", err)
		}
	})
}
