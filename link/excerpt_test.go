// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"k8s.io/utils/clock"
)

// maxReason bounds what may get into the status of a node.
const maxReason = 2 << 10

func TestCertificateOfEndlessNamesDoesNotFillTheStatus(t *testing.T) {
	a := newAuthority(t)
	var names []string
	for i := range 90 {
		names = append(names, fmt.Sprintf("n%d.%s.example.com", i, strings.TrimSuffix(strings.Repeat(strings.Repeat("x", 60)+".", 3), ".")))
	}
	pair, err := a.ca.IssueHost("edge-1", names, valid())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, a.files(pair))
	log := &lines{}
	certificates, err := LoadCertificates(a.files(a.node(valid())), log.logger())
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Options{Target: s.target(), Certificates: certificates, ServerName: "wanted.example.com", Clock: clock.RealClock{}, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Dial(t.Context())
	<-s.results
	if name := (x509.HostnameError{}); !errdefs.IsUnavailable(err) || !errors.As(err, &name) {
		t.Errorf("its class is lost: %v", err)
	}
	for what, text := range map[string]string{"error": err.Error(), "state": l.State().Err.Error(), "log": log.with("link cannot be made")[0]} {
		if len(text) > maxReason+200 || !strings.Contains(text, "dialing "+s.target().String()) || !strings.Contains(text, "not wanted.example.com") {
			t.Errorf("%s: %d bytes: %s", what, len(text), text)
		}
	}
}

// talker is a connection that ends with a long text.
type talker struct{ net.Conn }

func (talker) Read([]byte) (int, error)  { return 0, errors.New(strings.Repeat("x\n", 100<<10)) }
func (talker) Write([]byte) (int, error) { return 0, errors.New(strings.Repeat("x\n", 100<<10)) }

func TestEndOfAConnectionThatIsToldAtLengthDoesNotFillTheStatus(t *testing.T) {
	for what, use := range map[string]func(*conn) error{
		"read":  func(c *conn) error { _, err := c.Read(nil); return err },
		"write": func(c *conn) error { _, err := c.Write(nil); return err },
	} {
		for _, spoken := range []bool{false, true} {
			tracker := newTracker("tls://host", clock.RealClock{}, (&lines{}).logger())
			c := &conn{Conn: talker{}, tracker: tracker}
			if spoken {
				c.speak()
			}
			if err := use(c); len(err.Error()) > maxReason {
				t.Errorf("%s: %d bytes", what, len(err.Error()))
			}
			if got := tracker.get().Err; got == nil || len(got.Error()) > maxReason+100 || strings.Contains(got.Error(), "\n") {
				t.Errorf("%s, spoken %v: %.200v", what, spoken, got)
			}
		}
	}
}
