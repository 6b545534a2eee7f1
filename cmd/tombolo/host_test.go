// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// output is what a process that runs beside the test writes.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// await waits until the output matches and returns the first group.
func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if match := expression.FindStringSubmatch(o.String()); match != nil {
			return match[len(match)-1]
		}
	}
	t.Fatalf("no %q in:\n%s", pattern, o.String())
	return ""
}

// machine is where a host process runs.
type machine struct {
	dir    string
	pki    string
	socket string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{dir: dir, pki: filepath.Join(dir, "pki"), socket: filepath.Join(dir, "c.sock")}
	for _, args := range [][]string{
		{"pki", "init", "--dir", m.pki},
		{"pki", "host", "--dir", m.pki, "--name", "edge-1", "--address", "127.0.0.1"},
		{"pki", "node", "--dir", m.pki, "--name", "node-1"},
	} {
		if code, _, errs := execute(args...); code != exitSuccess {
			t.Fatalf("%v: %s", args, errs)
		}
	}
	return m
}

func (m *machine) args(more ...string) []string {
	return append([]string{
		"host", "--containerd", m.socket, "--root", filepath.Join(m.dir, "root"), "--pod-logs-dir", filepath.Join(m.dir, "logs"),
		"--listen", "127.0.0.1:0", "--client-ca-file", filepath.Join(m.pki, "ca.crt"),
		"--tls-cert-file", filepath.Join(m.pki, "host-edge-1.crt"), "--tls-private-key-file", filepath.Join(m.pki, "host-edge-1.key"),
	}, more...)
}

// start runs a host process until stop is called, which returns its exit code.
func (m *machine) start(t *testing.T, more ...string) (log *output, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log = &output{}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, m.args(more...), func(string) (string, bool) { return "", false }, nil, io.Discard, log)
	}()
	stop = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	t.Cleanup(func() { stop() })
	return log, stop
}

func (m *machine) connect(t *testing.T, address string) *hostconn.Connection {
	t.Helper()
	c, err := hostconn.Connect(hostconn.Options{Target: "tls://" + address, Logger: slog.New(slog.DiscardHandler), Files: link.Files{
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
	return c
}

func TestHostServesBeforeItsRuntimeIsUpAndWaitsForIt(t *testing.T) {
	m := newMachine(t)
	log, stop := m.start(t)
	c := m.connect(t, log.await(t, `serving nodes.* address=(\S+)`))
	runtime := cri.NewClient(c.CRI, cri.ClientOptions{})
	if _, err := runtime.Version(t.Context()); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "containerd at "+m.socket+" is not reachable") {
		t.Errorf("without a runtime: %v", err)
	}
	if facts, err := c.Host.Facts(t.Context()); err != nil || facts.Version != buildVersion() {
		t.Errorf("facts: %+v, %v", facts, err)
	}

	listener, err := net.Listen("unix", m.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := fakecri.New(fakecri.Options{}).Server()
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	defer wg.Wait()
	defer server.Stop()
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		if _, err = runtime.Version(t.Context()); err == nil {
			break
		}
		if time.Since(begin) > 5*time.Second {
			t.Fatalf("5 s after the runtime came up: %v", err)
		}
	}
	if code := stop(); code != exitSuccess {
		t.Errorf("exit code %d after a signal", code)
	}
	if !strings.Contains(log.String(), "pods were left alone") {
		t.Errorf("log:\n%s", log.String())
	}
}

func TestStrangersAreRefusedWithOneLineEach(t *testing.T) {
	m, strangers := newMachine(t), newMachine(t)
	log, _ := m.start(t)
	address := log.await(t, `serving nodes.* address=(\S+)`)
	c := strangers.connect(t, address)
	if _, err := c.Host.Facts(t.Context()); err == nil {
		t.Fatal("a stranger was answered")
	}
	response, err := http.Get("http://" + address + "/metrics")
	if err == nil {
		_ = response.Body.Close()
		t.Errorf("plain HTTP was answered with %s", response.Status)
	}
	log.await(t, `level=WARN msg="connection refused" peer=127\.0\.0\.1:\d+ reason="the peer speaks plain HTTP`)
}

func TestSecondHostOnOneRootDirectoryFails(t *testing.T) {
	m := newMachine(t)
	log, _ := m.start(t)
	log.await(t, "serving nodes")
	code, _, errs := execute(m.args()...)
	if code != exitFailure || !strings.Contains(errs, "in use by another tombolo process (pid ") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func TestMetricsAreServedOnlyWhereAsked(t *testing.T) {
	m := newMachine(t)
	log, stop := m.start(t, "--metrics-address", "127.0.0.1:0")
	address := log.await(t, `serving metrics.* address=(\S+)`)
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil || !strings.Contains(string(body), "tombolo_host_connections_refused_total 0") {
		t.Errorf("%v\n%s", err, body)
	}
	if code := stop(); code != exitSuccess {
		t.Errorf("exit code %d", code)
	}
	m = newMachine(t)
	log, _ = m.start(t)
	log.await(t, "serving nodes")
	if strings.Contains(log.String(), "serving metrics") {
		t.Error("served without being asked")
	}
}

func TestHostFlagsAreCheckedTogether(t *testing.T) {
	code, _, errs := execute("host", "--root", "relative", "--containerd", "unix://run/x.sock", "--listen", "8470", "--metrics-address", "x", "--pod-logs-dir", "")
	if code != exitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		`--root "relative"`, `--containerd "run/x.sock"`, `--listen "8470"`, `--metrics-address "x"`, `--pod-logs-dir ""`,
		"--tls-cert-file is empty: make one with: tombolo pki host", "--tls-private-key-file is empty", "--client-ca-file is empty",
	} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not named in:\n%s", want, errs)
		}
	}
}

func TestLookingOnlyIsForStandardInputAndOutput(t *testing.T) {
	if code, _, errs := execute(newMachine(t).args("--inspect")...); code != exitUsage || !strings.Contains(errs, "--inspect is for --stdio") {
		t.Errorf("exit %d, %s", code, errs)
	}
}

func TestHostFailsOnFilesAndAddressesItCannotUse(t *testing.T) {
	m := newMachine(t)
	code, _, errs := execute(m.args("--client-ca-file", filepath.Join(m.dir, "missing.crt"))...)
	if code != exitFailure || !strings.Contains(errs, "missing.crt") || !strings.Contains(errs, "--client-ca-file") {
		t.Errorf("missing file: exit %d, %s", code, errs)
	}
	code, _, errs = execute(m.args("--tls-cert-file", filepath.Join(m.pki, "node-node-1.crt"), "--tls-private-key-file", filepath.Join(m.pki, "node-node-1.key"))...)
	if code != exitFailure || !strings.Contains(errs, "--tls-cert-file") || !strings.Contains(errs, "tombolo pki host") {
		t.Errorf("a node's certificate: exit %d, %s", code, errs)
	}
	code, _, errs = execute(m.args("--listen", "127.0.0.1:65536")...)
	if code != exitUsage || !strings.Contains(errs, `--listen "127.0.0.1:65536"`) {
		t.Errorf("port: exit %d, %s", code, errs)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	code, _, errs = execute(m.args("--listen", taken.Addr().String())...)
	if code != exitFailure || !strings.Contains(errs, "--listen "+taken.Addr().String()) {
		t.Errorf("taken address: exit %d, %s", code, errs)
	}
	if code, _, errs := execute(m.args("--log-format", "xml")...); code != exitUsage || !strings.Contains(errs, "--log-format") {
		t.Errorf("log format: exit %d, %s", code, errs)
	}
}

func TestHelpOfEverySubCommandIsGolden(t *testing.T) {
	for _, name := range []string{
		"host", "check", "pki", "pki init", "pki host", "pki node", "config", "config default", "config check", "completion", "version",
	} {
		code, out, errs := execute(append(strings.Fields(name), "--help")...)
		if code != exitSuccess || errs != "" {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
		golden(t, strings.ReplaceAll(name, " ", "-")+"-help", out)
	}
}

func TestProcessStopsAlthoughACallHangs(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	letGo := make(chan struct{})
	defer close(letGo)
	log := &output{}
	done := make(chan error, 1)
	go func() {
		done <- boundedStop(ctx, slog.New(slog.NewTextHandler(log, nil)), func() error { <-letGo; return nil })
	}()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "left behind") {
		t.Error(log.String())
	}
}
