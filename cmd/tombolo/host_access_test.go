// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
)

// reverseNode is a node's end that the machine's host may connect to.
func (m *machine) reverseNode(t *testing.T) (c *hostconn.Connection, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	_ = listener.Close()
	c, err = hostconn.Connect(hostconn.Options{Target: "reverse://edge-1", Listen: address, Files: link.Files{
		CAFile:   filepath.Join(m.pki, "ca.crt"),
		CertFile: filepath.Join(m.pki, "node-node-1.crt"),
		KeyFile:  filepath.Join(m.pki, "node-node-1.key"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, address
}

// connectArgs are the machine's flags with --connect instead of --listen.
func (m *machine) connectArgs(address string, more ...string) []string {
	args := m.args()
	i := slices.Index(args, "--listen")
	return append(slices.Replace(args, i, i+2, "--connect", address), more...)
}

// awaitFacts waits until the node reaches the host. The host may say a moment earlier that the link is up, and says so of its containerd first.
func awaitFacts(t *testing.T, c *hostconn.Connection) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		facts, err := c.Host.Facts(t.Context())
		if errdefs.IsUnavailable(err) && time.Now().Before(deadline) {
			continue
		}
		if err != nil || facts.Version != buildVersion() {
			t.Errorf("facts: %+v, %v", facts, err)
		}
		return
	}
}

func TestHostThatConnectsServesItsNode(t *testing.T) {
	m := newMachine(t)
	c, address := m.reverseNode(t)
	if _, err := c.Host.Facts(t.Context()); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "has not connected to "+address+" yet") {
		t.Errorf("before the host is there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log := &output{}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, m.connectArgs(address), func(string) (string, bool) { return "", false }, nil, nil, log)
	}()
	awaitFacts(t, c)
	cancel()
	if got := <-code; got != exitSuccess || !strings.Contains(log.String(), "pods were left alone") {
		t.Errorf("exit %d:\n%s", got, log)
	}
}

func TestHostConnectsThroughTheProxyOfTheEnvironment(t *testing.T) {
	m := newMachine(t)
	asked := make(chan string, 100)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.RequestURI
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	env := map[string]string{"HTTPS_PROXY": proxy.URL}
	ctx, cancel := context.WithCancel(t.Context())
	log := &output{}
	code := make(chan int, 1)
	go func() {
		// Nobody answers at an address for documentation.
		code <- run(ctx, m.connectArgs("192.0.2.1:8470"), func(name string) (string, bool) { v, ok := env[name]; return v, ok }, nil, nil, log)
	}()
	if got := <-asked; got != "CONNECT 192.0.2.1:8470" {
		t.Errorf("the proxy was asked %q", got)
	}
	log.await(t, `does it allow CONNECT to that port`)
	cancel()
	if got := <-code; got != exitSuccess {
		t.Errorf("exit %d:\n%s", got, log)
	}
}

func TestProxyOnTheWayToTheNode(t *testing.T) {
	for name, tc := range map[string]struct {
		flag string
		env  map[string]string
		want string // the proxy, or an error
	}{
		"none":               {"", nil, ""},
		"of the environment": {"", map[string]string{"HTTPS_PROXY": "http://proxy:3128"}, "proxy:3128"},
		"in small letters":   {"", map[string]string{"https_proxy": "proxy:3128"}, "proxy:3128"},
		"not for the node":   {"", map[string]string{"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".example.com"}, ""},
		"for plain HTTP":     {"", map[string]string{"HTTP_PROXY": "http://proxy:3128"}, ""},
		"of the flag":        {"http://other:1", map[string]string{"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, "other:1"},
		"of another kind":    {"", map[string]string{"HTTPS_PROXY": "socks5://u:secret@proxy"}, "HTTPS_PROXY: proxy: scheme"},
		"that is no URL":     {"", map[string]string{"HTTPS_PROXY": "http://u:secret@proxy:x"}, "HTTPS_PROXY: "},
	} {
		o := connectOptions{address: "node.example.com:8470", proxy: tc.flag}
		u, err := o.proxyURL(func(name string) (string, bool) { v, ok := tc.env[name]; return v, ok })
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case u != nil:
			got = u.Host
		}
		if !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" || strings.Contains(got, "secret") {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestFlagsOfAHostThatConnectsAreChecked(t *testing.T) {
	m := newMachine(t)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{m.connectArgs("node"), `--connect "node": give host:port`},
		{m.connectArgs("https://node:1"), `--connect "https://node:1": give host:port`},
		{m.connectArgs("node:1", "--listen", ":9"), "--listen is for a host that nodes connect to, and --connect is given"},
		{m.connectArgs("node:1", "--proxy", "https://u:secret@proxy"), "--proxy: proxy: scheme \"https\""},
		{m.args("--node-name", "edge-1,"), "a name is empty"},
		{m.args("--node-name", "edge-1, edge-2"), "has a blank beside it"},
		{[]string{"host", "--stdio", "--node-name", "edge-1"}, "--node-name is for a host that is reached over the network, and --stdio is given"},
		{m.args("--proxy", "http://proxy"), "--proxy is for a host that connects to its node, and --connect is empty"},
		{[]string{"host", "--stdio", "--connect", "node:1"}, "--connect is for a host that is reached over the network, and --stdio is given"},
	} {
		code, _, errs := execute(tc.args...)
		if code != exitUsage || !strings.Contains(errs, tc.want) || strings.Contains(errs, "secret") {
			t.Errorf("exit %d, %s, want %q", code, errs, tc.want)
		}
	}
}

func TestHostIsForNodesOfItsNames(t *testing.T) {
	m := newMachine(t)
	const anybody = "any node of this authority may lead this host: --node-name"
	log, stop := m.start(t)
	c := m.connect(t, log.await(t, `serving nodes.* address=(\S+)`))
	if _, err := c.Host.Facts(t.Context()); err != nil {
		t.Error(err)
	}
	stop()
	if n := strings.Count(log.String(), anybody); n != 1 {
		t.Errorf("%d lines say that any node may lead:\n%s", n, log)
	}
	log, stop = m.start(t, "--node-name", "node-2,node-3")
	address := log.await(t, `serving nodes.* address=(\S+)`)
	if _, err := m.connect(t, address).Host.Facts(t.Context()); err == nil {
		t.Error("another node was answered")
	}
	log.await(t, `msg="connection refused".*only node-2, node-3 may lead this host`)
	stop()
	if strings.Contains(log.String(), anybody) {
		t.Errorf("it says that any node may lead:\n%s", log)
	}
	log, _ = m.start(t, "--node-name", "node-1")
	if _, err := m.connect(t, log.await(t, `serving nodes.* address=(\S+)`)).Host.Facts(t.Context()); err != nil {
		t.Errorf("its own node: %v", err)
	}
}
