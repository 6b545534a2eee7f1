// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"
)

func TestParseTargetRefusesWhatCannotBeDialled(t *testing.T) {
	for text, remedy := range map[string]string{
		"tls://a:0":       "give a port from 1 to 65535, as in tls://a:8470",
		"tls://[::1]:0":   "give a port from 1 to 65535, as in tls://[::1]:8470",
		"tls://a:65536":   "give a port from 1 to 65535",
		"tls://a:-1":      "give a port from 1 to 65535",
		"tls://a:https":   "give a port from 1 to 65535",
		"tls://a:1/path":  "give a port from 1 to 65535",
		"tls://a:1?x=y":   "give a port from 1 to 65535",
		"tls://user@a:1":  "use tls://host:port",
		"tls://a b:1":     "use tls://host:port",
		"tls://a/b:1":     "use tls://host:port",
		"tls://unix://:1": "use tls://host:port",
		"ssh://edge":      "use user@host",
		"ssh://a@edge:0":  "give a port from 1 to 65535",
		"http://edge":     "use unix, tls, ssh or reverse",
		"reverse://":      "use reverse://name",
		"reverse://a:1":   "no port belongs here",
		"reverse://A_b":   "use reverse://name",
	} {
		got, err := ParseTarget(text)
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), strings.TrimPrefix(text, "ssh://")) || !strings.Contains(err.Error(), remedy) {
			t.Errorf("%q: %+v, %v, want %q", text, got, err, remedy)
		}
	}
	for _, text := range []string{"tls://EDGE.example.com.:1", "tls://[fe80::1%eth0]:65535", "reverse://edge-1", "reverse://edge-1.example.com"} {
		if _, err := ParseTarget(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPortOfSSHIsFilledIn(t *testing.T) {
	for text, want := range map[string]string{"ssh://root@edge": "ssh://root@edge:22", "ssh://root@[::1]": "ssh://root@[::1]:22"} {
		if got, err := ParseTarget(text); err != nil || got.String() != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}
