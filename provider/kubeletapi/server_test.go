// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tombolo-dev/tombolo/host"
)

func TestHealth(t *testing.T) {
	var sick error
	b := newBed(t, func(_ *bed, o *Options) { o.SyncLoop = func(*http.Request) error { return sick } })
	for _, path := range []string{"/healthz", "/healthz/ping", "/healthz/syncloop"} {
		if code, body := b.get(t, path); code != http.StatusOK || body != "ok" {
			t.Errorf("%s: %d %q", path, code, body)
		}
	}
	sick = errors.New("pleg was last seen active 5m0s ago")
	if code, body := b.get(t, "/healthz"); code != http.StatusInternalServerError || !strings.Contains(body, "[-]syncloop failed") {
		t.Errorf("/healthz: %d %q", code, body)
	}
	if code, _ := b.get(t, "/healthz/ping"); code != http.StatusOK {
		t.Errorf("/healthz/ping: %d", code)
	}
}

func TestMetricsCountRequestsByRoute(t *testing.T) {
	registry := prometheus.NewRegistry()
	b := newBed(t, func(_ *bed, o *Options) { o.Gatherer, o.Registerer = registry, registry })
	b.get(t, "/pods")
	b.get(t, "/exec/ns/web/app")
	b.get(t, "/made-up-by-the-caller")
	b.do(t, b.client(t, "", nil), http.MethodGet, "/pods", nil)
	want := `
# HELP kubelet_http_requests_total Number of HTTP requests received since the server started.
# TYPE kubelet_http_requests_total counter
kubelet_http_requests_total{long_running="false",method="GET",path="other",server_type="readwrite"} 1
kubelet_http_requests_total{long_running="false",method="GET",path="pods",server_type="readwrite"} 2
kubelet_http_requests_total{long_running="true",method="GET",path="exec",server_type="readwrite"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "kubelet_http_requests_total"); err != nil {
		t.Error(err)
	}
	if code, body := b.get(t, "/metrics"); code != http.StatusOK || !strings.Contains(body, "kubelet_http_inflight_requests") {
		t.Errorf("/metrics: %d %q", code, body)
	}
	if n := testutil.ToFloat64(b.server.metrics.inflight.WithLabelValues("GET", "pods", "readwrite", "false")); n != 0 {
		t.Errorf("%v requests are said to be in flight", n)
	}
}

func TestOptionsThatAreMissingAreNamed(t *testing.T) {
	checkLeaks(t)
	b := newReviews(t)
	good := Options{
		NodeName: nodeName, Reviews: b.client, Pods: newView(), Runtime: &fakeRuntime{}, Logs: &fakeLogs{}, Streams: fakeDialer(dialDirectly),
		TLS: TLSOptions{CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile},
	}
	tests := []struct {
		desc   string
		change func(*Options)
		text   string
	}{
		{"no name", func(o *Options) { o.NodeName = "" }, "NodeName"},
		{"no client", func(o *Options) { o.Reviews = nil }, "Reviews"},
		{"no pods", func(o *Options) { o.Pods = nil }, "Pods"},
		{"no runtime", func(o *Options) { o.Runtime = nil }, "Runtime"},
		{"key without certificate", func(o *Options) { o.TLS.CertFile = "" }, "tls-cert-file"},
		{"certificate without key", func(o *Options) { o.TLS.KeyFile = "" }, "tls-private-key-file"},
		{"missing certificate", func(o *Options) { o.TLS.CertFile = "/nowhere" }, "/nowhere"},
		{"missing authority", func(o *Options) { o.TLS.ClientCAFile = "/nowhere" }, "client-ca-file"},
		{"negative time", func(o *Options) { o.CallTimeout = -1 }, "CallTimeout"},
	}
	for _, test := range tests {
		t.Run(test.desc, func(t *testing.T) {
			o := good
			test.change(&o)
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want an error with %q", err, test.text)
			}
		})
	}
}

func TestANewCertificateIsServedWithoutARestart(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	ca := newAuthority("ca")
	ca.writeServing(cert, key, "first")
	b := newBed(t, func(_ *bed, o *Options) { o.TLS.CertFile, o.TLS.KeyFile = cert, key })
	if name := b.servedName(t); name != "first" {
		t.Fatalf("serving %q", name)
	}
	// As a renewal does it: both files are put in place whole.
	next := filepath.Join(dir, "next.crt")
	nextKey := filepath.Join(dir, "next.key")
	ca.writeServing(next, nextKey, "second")
	if err := errors.Join(os.Rename(nextKey, key), os.Rename(next, cert)); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if b.servedName(t) == "second" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the new certificate is not served")
}

// servedName returns the common name of the certificate the server shows now.
func (b *bed) servedName(t *testing.T) string {
	t.Helper()
	conn, err := tls.Dial("tcp", strings.TrimPrefix(b.url, "https://"), insecure())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

func TestASelfSignedCertificateNamesTheNode(t *testing.T) {
	b := newBed(t, func(_ *bed, o *Options) {
		o.TLS.CertFile, o.TLS.KeyFile = "", ""
		o.TLS.Addresses = []string{"10.1.2.3", "island.example", nodeName, ""}
	})
	conn, err := tls.Dial("tcp", strings.TrimPrefix(b.url, "https://"), insecure())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	cert := conn.ConnectionState().PeerCertificates[0]
	for _, name := range []string{nodeName, "island.example", "10.1.2.3"} {
		if err := cert.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
	if len(cert.DNSNames) != 2 || slices.Contains(cert.DNSNames, "") {
		t.Errorf("names are %q", cert.DNSNames)
	}
}

func TestOldTLSAndPlainHTTPAreRefused(t *testing.T) {
	b := newBed(t, nil)
	old := insecure()
	old.MaxVersion = tls.VersionTLS11
	if conn, err := tls.Dial("tcp", strings.TrimPrefix(b.url, "https://"), old); err == nil {
		_ = conn.Close()
		t.Error("TLS 1.1 was accepted")
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http" + strings.TrimPrefix(b.url, "https") + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP: %s", resp.Status)
	}
}

func TestRunReturnsWhenItCannotListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	b := newBed(t, nil)
	o := b.server.o
	o.Listener, o.Address = nil, taken.Addr().String()
	second, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Run(t.Context()); err == nil || !strings.Contains(err.Error(), o.Address) {
		t.Errorf("got %v", err)
	}
}

func TestRunWaitsForRequests(t *testing.T) {
	begun, finish := make(chan struct{}), make(chan struct{})
	b := newBed(t, func(b *bed, _ *Options) {
		b.logs.log = func(_ context.Context, _ host.LogRequest, _, _ io.Writer) error {
			close(begun)
			<-finish
			return nil
		}
	})
	go func() {
		// The answer does not matter; it may be cut off.
		if resp, err := b.client(t, "admin", nil).Get(b.url + "/containerLogs/ns/web/app"); err == nil {
			_ = resp.Body.Close()
		}
	}()
	<-begun
	b.stop()
	select {
	case <-b.done:
		t.Error("Run returned while a request was running")
	case <-time.After(50 * time.Millisecond):
	}
	close(finish)
}
