// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"bufio"
	"encoding/pem"
	"log/slog"
	"path"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/calmlog"
)

func pemText(block *pem.Block) string { return string(pem.EncodeToMemory(block)) }

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]Address{
		"root@edge":                     {"root", "edge", "22"},
		"root@edge.example.com:2222":    {"root", "edge.example.com", "2222"},
		"me@[2001:db8::1]":              {"me", "2001:db8::1", "22"},
		"me@[2001:db8::1]:022":          {"me", "2001:db8::1", "22"},
		"first.last@corp.example@1.2.3": {"first.last@corp.example", "1.2.3", "22"},
	} {
		got, err := ParseAddress(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, remedy := range map[string]string{
		"edge":          "use user@host",
		"@edge":         "user's name",
		"-o@edge":       "user's name",
		"a b@edge":      "user's name",
		"a/b@edge":      "user's name",
		"me@":           "neither a DNS name nor",
		"me@a b":        "neither a DNS name nor",
		"me@edge:":      "port from 1 to 65535",
		"me@edge:0":     "port from 1 to 65535",
		"me@edge:65536": "port from 1 to 65535",
		"me@edge:22/x":  "port from 1 to 65535",
		"me@fe80::1":    "brackets",
		"me@[edge":      "neither a DNS name nor",
	} {
		got, err := ParseAddress(text)
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%q: %+v, %v, want %q", text, got, err, remedy)
		}
	}
	if _, err := ParseAddress("me:secret@edge"); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "password") {
		t.Errorf("a password: %v", err)
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, seed := range []string{"root@edge", "me@[::1]:22", "a@b@c:1", "@", "me@[::1", "me@fe80::1%eth0", "me@[fe80::1%eth0]:9"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		address, err := ParseAddress(text)
		if err != nil {
			return
		}
		again, err := ParseAddress(address.String())
		if err != nil || again != address {
			t.Errorf("%q is %+v, and that %+v, %v", text, address, again, err)
		}
		if strings.ContainsAny(address.HostPort(), " \n/@") {
			t.Errorf("%q leads to %q", text, address.HostPort())
		}
	})
}

func TestPinnedKeysAreFingerprintsOrKeys(t *testing.T) {
	const fingerprint = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
	for text, want := range map[string]string{fingerprint: fingerprint, fingerprint + "=": fingerprint} {
		if pin, err := ParsePinnedKey(text); err != nil || pin.fingerprint != want {
			t.Errorf("%q: %+v, %v", text, pin, err)
		}
	}
	for _, text := range []string{"", "SHA256:", "SHA256:abc", "MD5:aa:bb", "ssh-ed25519", "ssh-ed25519 AAAA", fingerprint[:len(fingerprint)-1], "*", "any"} {
		if pin, err := ParsePinnedKey(text); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %+v, %v", text, pin, err)
		}
	}
}

func FuzzParsePinnedKey(f *testing.F) {
	f.Add("SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU")
	f.Add("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA me")
	f.Fuzz(func(t *testing.T, text string) {
		pin, err := ParsePinnedKey(text)
		if err == nil && (len(pin.fingerprint) != len(fingerprintPrefix)+43 || !strings.HasPrefix(pin.fingerprint, fingerprintPrefix)) {
			t.Errorf("%q is pinned as %q", text, pin.fingerprint)
		}
	})
}

func TestAnswerOfTheHostIsReadAmongOtherLines(t *testing.T) {
	place1, err := parsePlace(parseAnswers([]byte("Welcome!\r\n\ntombolo: machine Linux aarch64\r\ntombolo: cache /home/e d/.cache/tombolo\n")))
	if want := (place{arch: "arm64", cache: "/home/e d/.cache/tombolo"}); err != nil || place1 != want {
		t.Errorf("%+v, %v", place1, err)
	}
	for output, want := range map[string]string{
		"":                              "did not answer",
		"tombolo: machine Linux x86_64": "did not answer",
		"tombolo: cache /x":             "did not answer",
		"tombolo: machine Linux":        `""`,
		"tombolo: machine Linux x86_64\ntombolo: cache .cache": "--host-ssh-cache-dir",
		"tombolo: machine Linux x86_64\ntombolo: cache /":      "--host-ssh-cache-dir",
	} {
		if got, err := parsePlace(parseAnswers([]byte(output))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v", output, got, err)
		}
	}
}

func FuzzParsePlace(f *testing.F) {
	f.Add([]byte("tombolo: machine Linux x86_64\ntombolo: cache /root/.cache/tombolo\n"))
	f.Add([]byte("tombolo: machine Darwin arm64\n"))
	f.Add([]byte("tombolo: \ntombolo: cache //\n\x00"))
	f.Fuzz(func(t *testing.T, output []byte) {
		where, err := parsePlace(parseAnswers(output))
		if err != nil {
			return
		}
		if _, known := machines[where.arch]; !known || !path.IsAbs(where.cache) || where.cache == "/" || strings.Contains(where.cache, "\n") {
			t.Errorf("%q is %+v", output, where)
		}
	})
}

func FuzzReadGreeting(f *testing.F) {
	f.Add("\ntombolo-host 1 v1\nrest")
	f.Add("noise\ntombolo: absent\n")
	f.Add(strings.Repeat("x", 5000) + "tombolo-host 1 v1\n")
	f.Fuzz(func(t *testing.T, text string) {
		reader := bufio.NewReader(strings.NewReader(text + "\n" + Greeting("v1") + "after"))
		got, err := readGreeting(reader)
		if err != nil {
			if len(text) < maxAnswer-100 {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if strings.Contains(text, greetingPrefix) || strings.Contains(text, answerPrefix) {
			return
		}
		rest := make([]byte, 5)
		if n, _ := reader.Read(rest); got.version != "v1" || string(rest[:n]) != "after" {
			t.Errorf("%q: %+v, then %q", text, got, rest)
		}
	})
}

func TestHostsLogKeepsItsLevelsAndFields(t *testing.T) {
	var out lines
	log := newHostLog(calmlog.NewBusy(slog.New(slog.NewTextHandler(&out, nil)), clock.RealClock{}))
	for _, part := range []string{
		`{"time":"2026-01-02T03:04:05Z","level":"INFO","msg":"serving","pod":"a/b","n":3}` + "\n" + `{"level":"DEBUG","msg":"quiet"}` + "\n",
		`{"level":"ERROR","msg":"bro`, `ken"}` + "\nplain\n\n", "Error: x",
	} {
		if n, err := log.Write([]byte(part)); n != len(part) || err != nil {
			t.Errorf("wrote %d, %v", n, err)
		}
	}
	for _, want := range []string{`level=INFO msg="the host says" text=serving host.n=3 host.pod=a/b`, `level=ERROR msg="the host says" text=broken`, `level=WARN msg="the host says" text=plain`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "quiet") {
		t.Error("a debug message was made louder")
	}
	if got := log.last(); got != "broken\nplain\nError: x" {
		t.Errorf("last lines %q", got)
	}
}

func TestHostThatGoesOnTalkingDoesNotFillTheLog(t *testing.T) {
	var out lines
	says := calmlog.NewBusy(slog.New(slog.NewTextHandler(&out, nil)), clock.RealClock{})
	const connections, each = 20, 1000
	for range connections {
		log := newHostLog(says)
		for range each {
			_, _ = log.Write([]byte("blah\n"))
		}
		if got := log.waitingFor(); got != "blah" {
			t.Errorf("what it said last is %q", got)
		}
	}
	if n := strings.Count(out.String(), "text=blah"); n == 0 || n > connections*each/10 {
		t.Errorf("%d lines of %d", n, connections*each)
	}
}

func FuzzHostLog(f *testing.F) {
	f.Add([]byte(`{"level":"INFO","msg":"x","a":{"b":[1]}}`+"\n"), 3)
	f.Add([]byte("{\"level\":1}\n\xff\x00\n"), 1)
	f.Fuzz(func(t *testing.T, text []byte, step int) {
		log := newHostLog(calmlog.NewBusy(slog.New(slog.DiscardHandler), clock.RealClock{}))
		for rest := text; len(rest) > 0; {
			n := min(len(rest), max(1, step))
			_, _ = log.Write(rest[:n])
			rest = rest[n:]
		}
		if len(log.begun) > maxLine || len(log.lines) > maxLast {
			t.Errorf("keeps %d bytes and %d lines", len(log.begun), len(log.lines))
		}
	})
}

func TestCommandLinesSurviveAnyShell(t *testing.T) {
	if d := cmp.Diff(`exec 'sh' 'a b' 'it'\''s' ''`, command("sh", "a b", "it's", "")); d != "" {
		t.Error(d)
	}
	for _, script := range []string{lookScript, startScript, uploadScript} {
		if strings.ContainsAny(script, "'!") {
			t.Errorf("a quote or an exclamation mark in %q", script)
		}
	}
}
