// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package hostconn

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"go.uber.org/goleak"
	"google.golang.org/grpc/credentials"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host/local"
	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/pki"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// certificates makes the files of both ends of a link.
func certificates(t *testing.T, nodeValidity time.Duration) (host, node link.Files) {
	t.Helper()
	store := pki.NewStore(t.TempDir(), false)
	from := time.Now().Add(-time.Hour)
	if _, err := store.Init("test", pki.Lifetime{From: from, Validity: 10 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	hostFiles, err := store.IssueHost("edge-1", []string{"127.0.0.1"}, pki.Lifetime{From: from, Validity: 9 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	nodeFiles, err := store.IssueNode("node-1", pki.Lifetime{From: from, Validity: nodeValidity})
	if err != nil {
		t.Fatal(err)
	}
	return link.Files{CAFile: store.AuthorityFile(), CertFile: hostFiles.CertFile, KeyFile: hostFiles.KeyFile},
		link.Files{CAFile: store.AuthorityFile(), CertFile: nodeFiles.CertFile, KeyFile: nodeFiles.KeyFile}
}

// serve runs a host process's server on an address and returns what ends it.
func serve(t *testing.T, files link.Files, address string) (bound string, stop func()) {
	t.Helper()
	certs, err := link.LoadCertificates(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return listener.Addr().String(), serveOn(t, listener, certs.ServerCredentials(link.ServerOptions{}))
}

// serveOn does the same on a listener.
func serveOn(t *testing.T, listener net.Listener, secure credentials.TransportCredentials) (stop func()) {
	t.Helper()
	runtime := fakecri.New(fakecri.Options{})
	dir := t.TempDir()
	machine, err := local.New(local.Options{RootDir: filepath.Join(dir, "root"), PodLogsDir: filepath.Join(dir, "logs"), Runtime: runtime.Client(), Version: "v9"})
	if err != nil {
		t.Fatal(err)
	}
	server := remote.NewServer(remote.ServerOptions{
		Host: machine, Runtime: machine.ObserveStreaming(runtime.Conn()), Credentials: secure,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(ctx, listener); err != nil {
			t.Error(err)
		}
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			wg.Wait()
			if err := machine.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

func open(t *testing.T, o Options) *Connection {
	t.Helper()
	c, err := Connect(o)
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

func runtimeOf(c *Connection) *cri.Client {
	return cri.NewClient(c.CRI, cri.ClientOptions{Identity: fakecri.DefaultIdentity})
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(15 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 15 s: %s", what)
		}
	}
}

func TestHostIsReachedOverMutualTLSAndFoundAgain(t *testing.T) {
	hostFiles, nodeFiles := certificates(t, 9*time.Hour)
	address, stop := serve(t, hostFiles, "127.0.0.1:0")
	c := open(t, Options{Target: "tls://" + address, Files: nodeFiles})
	if c.Target != "tls://"+address {
		t.Errorf("target %s", c.Target)
	}
	facts, err := c.Host.Facts(t.Context())
	if err != nil || facts.Version != "v9" {
		t.Fatalf("facts %+v, %v", facts, err)
	}
	if version, err := runtimeOf(c).Version(t.Context()); err != nil || version.GetRuntimeName() == "" {
		t.Fatalf("version %v, %v", version, err)
	}
	if state := c.State(); !state.Up || state.Err != nil || c.Err() != nil {
		t.Errorf("state %+v, %v", state, c.Err())
	}
	before := c.State().Since

	stop()
	eventually(t, "the link is down", func() bool { return !c.State().Up })
	for _, err := range []error{c.Err(), second(runtimeOf(c).Version(t.Context())), second(c.Host.ListPods(t.Context()))} {
		if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "tls://"+address) {
			t.Errorf("while the host is away: %v", err)
		}
	}
	if since := c.State().Since; !since.After(before) {
		t.Errorf("down since %s, up since %s", since, before)
	}

	_, _ = serve(t, hostFiles, address)
	eventually(t, "an answer", func() bool { return second(c.Host.ListPods(t.Context())) == nil })
	if err := c.Err(); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// connectTo runs a host process's server that connects to a node, and returns what ends it.
func connectTo(t *testing.T, files link.Files, address string) (stop func()) {
	t.Helper()
	certs, err := link.LoadCertificates(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := link.NewConnector(link.ConnectorOptions{Address: address, Certificates: certs})
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, connector, nil)
}

func TestHostThatConnectsIsUsedAndFoundAgain(t *testing.T) {
	hostFiles, nodeFiles := certificates(t, 9*time.Hour)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	c := open(t, Options{Target: "reverse://edge-1", Files: nodeFiles, Listen: address})
	eventually(t, "it says what it waits for", func() bool { return strings.Contains(c.Err().Error(), "has not connected to "+address) })
	if _, err := c.Host.Facts(t.Context()); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "reverse://edge-1") {
		t.Errorf("before the host is there: %v", err)
	}
	for range 3 {
		stop := connectTo(t, hostFiles, address)
		eventually(t, "an answer", func() bool { return second(c.Host.ListPods(t.Context())) == nil })
		if version, err := runtimeOf(c).Version(t.Context()); err != nil || version.GetRuntimeName() == "" || !c.State().Up {
			t.Errorf("version %v, %v, %+v", version, err, c.State())
		}
		stop()
		eventually(t, "the link is down", func() bool { return !c.State().Up })
		if _, err := c.Host.Facts(t.Context()); !errdefs.IsUnavailable(err) {
			t.Errorf("while the host is away: %v", err)
		}
	}
}

func TestHostThatIsNotUnderstoodIsDownWithTheReasonUntilItIs(t *testing.T) {
	hostFiles, nodeFiles := certificates(t, 9*time.Hour)
	address, _ := serve(t, hostFiles, "127.0.0.1:0")
	log := &strings.Builder{}
	o := Options{Target: "tls://" + address, Files: nodeFiles, Version: "v1", Clock: clock.RealClock{}, Logger: slog.New(slog.NewTextHandler(log, nil))}
	c := open(t, o)
	if _, err := c.Host.Facts(t.Context()); err != nil {
		t.Fatal(err)
	}
	tell := c.negotiated(o)
	why := &remote.SkewError{Reason: "the host is too old", Remedy: "replace it"}
	tell("v0", why)
	since := c.State().Since
	tell("v0", why)
	if state := c.State(); state.Up || !errors.Is(state.Err, why) || state.Waiting || !state.Since.Equal(since) || !errdefs.IsUnavailable(c.Err()) {
		t.Errorf("%+v, %v", state, c.Err())
	}
	tell("v2", nil)
	if state := c.State(); !state.Up || c.Err() != nil {
		t.Errorf("%+v", state)
	}
	if n := strings.Count(log.String(), "The host is not used"); n != 1 || !strings.Contains(log.String(), "host_version=v2 version=v1") {
		t.Errorf("log: %s", log)
	}
}

func TestNodeSaysThatItsCertificateWasRefused(t *testing.T) {
	hostFiles, nodeFiles := certificates(t, time.Minute) // expired an hour ago, less that minute
	address, _ := serve(t, hostFiles, "127.0.0.1:0")
	c := open(t, Options{Target: "tls://" + address, Files: nodeFiles})
	if _, err := runtimeOf(c).Version(t.Context()); !errdefs.IsUnavailable(err) {
		t.Errorf("version: %v", err)
	}
	eventually(t, "the reason is known", func() bool {
		return strings.Contains(c.Err().Error(), "refused our certificate: remote error: tls: expired certificate")
	})
	if c.State().Up {
		t.Error("up")
	}
}

func TestConnectionThatWasNotTriedYetIsNotUp(t *testing.T) {
	_, nodeFiles := certificates(t, 9*time.Hour)
	// Nothing answers at an address for documentation.
	c := open(t, Options{Target: "tls://192.0.2.1:1", Files: nodeFiles})
	if err := c.Err(); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "tls://192.0.2.1:1") {
		t.Errorf("got %v", err)
	}
}

func localOptions(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	return Options{
		Target:     "unix://" + filepath.Join(dir, "containerd.sock"),
		RootDir:    filepath.Join(dir, "root"),
		PodLogsDir: filepath.Join(dir, "logs"),
		Version:    "v9",
	}
}

func TestHostPartRunsInProcessAndWaitsForTheRuntime(t *testing.T) {
	o := localOptions(t)
	c := open(t, o)
	if facts, err := c.Host.Facts(t.Context()); err != nil || facts.Version != "v9" || facts.RootDir != o.RootDir {
		t.Errorf("facts without a runtime: %+v, %v", facts, err)
	}
	if _, err := runtimeOf(c).Version(t.Context()); !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "containerd at ") {
		t.Errorf("version: %v", err)
	}

	server := fakecri.New(fakecri.Options{}).Server()
	listener, err := net.Listen("unix", strings.TrimPrefix(o.Target, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	defer wg.Wait()
	defer server.Stop()
	eventually(t, "an answer", func() bool { return second(runtimeOf(c).Version(t.Context())) == nil })
	if err := c.Err(); err != nil {
		t.Error(err)
	}
}

func TestRootDirectoryIsUsedByOneConnectionAtATime(t *testing.T) {
	o := localOptions(t)
	first, err := Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Connect(o); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), o.RootDir) {
		t.Errorf("second connection: %v", err)
	}
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	open(t, o)
}

func TestBadOptionsAreNamed(t *testing.T) {
	_, files := certificates(t, 9*time.Hour)
	missing := files
	missing.KeyFile = filepath.Join(t.TempDir(), "missing.key")
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"scheme":          {func(o *Options) { o.Target = "http://x" }, `"http"`},
		"no target":       {func(o *Options) { o.Target = "" }, "target"},
		"missing key":     {func(o *Options) { o.Target, o.Files = "tls://192.0.2.1:1", missing }, missing.KeyFile},
		"no certificates": {func(o *Options) { o.Target = "tls://192.0.2.1:1" }, "certificate authority"},
		"relative root":   {func(o *Options) { o.RootDir = "root" }, `"root"`},
		"root is a file": {func(o *Options) {
			o.RootDir = filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(o.RootDir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "root directory"},
	} {
		t.Run(name, func(t *testing.T) {
			o := localOptions(t)
			test.change(&o)
			if _, err := Connect(o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
