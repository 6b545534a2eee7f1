// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host/local"
	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/pki"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serveTLS runs a host process's server and returns how to reach it.
func serveTLS(t *testing.T, names ...string) hostconn.Options {
	t.Helper()
	store := pki.NewStore(t.TempDir(), false)
	life := pki.Lifetime{From: time.Now().Add(-time.Hour), Validity: 365 * 24 * time.Hour}
	if _, err := store.Init("test", pki.Lifetime{From: life.From, Validity: 2 * life.Validity}); err != nil {
		t.Fatal(err)
	}
	hostFiles, err := store.IssueHost("edge-1", names, life)
	if err != nil {
		t.Fatal(err)
	}
	nodeFiles, err := store.IssueNode("edge-1", life)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := link.LoadCertificates(link.Files{CAFile: store.AuthorityFile(), CertFile: hostFiles.CertFile, KeyFile: hostFiles.KeyFile}, nil)
	if err != nil {
		t.Fatal(err)
	}
	runtime := fakecri.New(fakecri.Options{})
	reader, err := local.NewReader(local.Options{RootDir: t.TempDir(), PodLogsDir: t.TempDir(), Runtime: runtime.Client(), Version: "v9"})
	if err != nil {
		t.Fatal(err)
	}
	server := remote.NewServer(remote.ServerOptions{Facts: reader, Runtime: runtime.Conn(), Credentials: certs.ServerCredentials(link.ServerOptions{})})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ctx, listener) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	return hostconn.Options{
		Target: "tls://" + listener.Addr().String(), Version: "v9",
		Files: link.Files{CAFile: store.AuthorityFile(), CertFile: nodeFiles.CertFile, KeyFile: nodeFiles.KeyFile},
	}
}

func observe(t *testing.T, o Options) *Observed {
	t.Helper()
	o.Clock, o.Patience = clock.RealClock{}, 30*time.Second
	return Observe(t.Context(), o)
}

func find(o *Observed, check string) (out []Finding) {
	for _, f := range Judge(o) {
		if f.Check == check {
			out = append(out, f)
		}
	}
	return out
}

func TestHostBehindTLSIsLookedAt(t *testing.T) {
	got := observe(t, Options{Host: serveTLS(t, "127.0.0.1")})
	if got.LinkErr != nil || got.Machine == nil || got.Runtime == nil || got.Status == nil || got.ImagesErr != nil || got.RoundTrip <= 0 {
		t.Fatalf("%+v", got)
	}
	for _, check := range []string{checkLink, checkVersions, checkClock, checkImages} {
		if f := find(got, check); len(f) != 1 || f[0].Status != OK {
			t.Errorf("%+v", f)
		}
	}
	certificates := find(got, checkCertificates)
	if len(certificates) != 3 {
		t.Errorf("%+v", certificates)
	}
	for _, f := range certificates {
		if f.Status != OK {
			t.Errorf("%+v", f)
		}
	}
}

func TestCertificateOfAnotherNameIsShownAndItsNameToldAsTheReason(t *testing.T) {
	got := observe(t, Options{Host: serveTLS(t, "edge-1.example.com")})
	if got.LinkErr == nil || got.Machine != nil {
		t.Fatalf("%+v", got)
	}
	if f := find(got, checkLink); len(f) != 1 || !strings.Contains(f[0].Remedy, "certificate of the host below") {
		t.Errorf("%+v", f)
	}
	last := find(got, checkCertificates)
	if f := last[len(last)-1]; f.Status != Failed || !strings.Contains(f.Message, "is not for 127.0.0.1") {
		t.Errorf("%+v", f)
	}
}

func TestHostThatIsAwayIsNotWaitedFor(t *testing.T) {
	o := serveTLS(t, "127.0.0.1")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o.Target = "tls://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if f := find(observe(t, Options{Host: o}), checkLink); len(f) != 1 || !strings.Contains(f[0].Remedy, "start tombolo host") {
		t.Errorf("%+v", f)
	}
}

func TestFilesThatAreMissingAreFindings(t *testing.T) {
	o := serveTLS(t, "127.0.0.1")
	o.Files.CertFile += "-missing"
	got := observe(t, Options{Host: o, Files: []CertificateFile{{Flag: "--tls-cert-file", Path: o.Files.KeyFile}}})
	var failures []string
	for _, f := range find(got, checkCertificates) {
		if f.Status == Failed {
			failures = append(failures, f.Message)
		}
	}
	if len(failures) != 2 || !strings.HasPrefix(failures[0], "--host-cert-file ") || !strings.HasPrefix(failures[1], "--tls-cert-file ") {
		t.Errorf("%q", failures)
	}
}

func TestThisMachineIsLookedAtBesideTheProcessThatHasItsDirectories(t *testing.T) {
	dir := t.TempDir()
	runtime := fakecri.New(fakecri.Options{})
	owner, err := local.New(local.Options{RootDir: filepath.Join(dir, "root"), PodLogsDir: filepath.Join(dir, "logs"), Runtime: runtime.Client()})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close(context.Background())
	o := hostconn.Options{Target: "unix://" + filepath.Join(dir, "c.sock"), RootDir: filepath.Join(dir, "root"), PodLogsDir: filepath.Join(dir, "logs"), Version: "v9"}
	got := observe(t, Options{Host: o})
	if f := find(got, checkLink); f[0].Status != Failed || !strings.Contains(f[0].Remedy, "installed and running") {
		t.Errorf("without a socket: %+v", f)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "c.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := runtime.Server()
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	defer wg.Wait()
	defer server.Stop()
	got = observe(t, Options{Host: o})
	if got.LinkErr != nil || got.Runtime == nil || got.Machine == nil {
		t.Errorf("%+v", got)
	}
}

func TestTargetThatIsNoneIsAFinding(t *testing.T) {
	if f := find(observe(t, Options{Host: hostconn.Options{Target: "http://x"}}), checkLink); len(f) != 1 || f[0].Status != Failed {
		t.Errorf("%+v", f)
	}
}

// api answers reviews as an API server would: the node may do everything but create Nodes.
func api(t *testing.T) *rest.Config {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 1<<16)
		n, _ := r.Body.Read(body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Header.Get("Authorization") != "Bearer right":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Unauthorized","code":401}`))
		case r.URL.Path == "/version":
			_, _ = w.Write([]byte(`{"gitVersion":"v1.37.2"}`))
		case strings.HasSuffix(r.URL.Path, "/selfsubjectreviews"):
			_, _ = w.Write([]byte(`{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1","status":{"userInfo":{"username":"system:node:edge-1"}}}`))
		case strings.Contains(string(body[:n]), `"resource":"nodes"`) && strings.Contains(string(body[:n]), `"verb":"create"`):
			_, _ = w.Write([]byte(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`))
		default:
			_, _ = w.Write([]byte(`{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`))
		}
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return &rest.Config{Host: server.URL, BearerToken: "right", ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

func TestRightsAreAskedForVerbByVerb(t *testing.T) {
	config := api(t)
	stranger := rest.CopyConfig(config)
	stranger.BearerToken = "wrong"
	got := observe(t, Options{Host: hostconn.Options{Target: "unix:///missing"}, Node: "edge-1", Sources: []Source{
		{What: "--kubeconfig k", Config: config, Node: true}, {What: "--kubeconfig w", Config: stranger, Node: true}, {What: "--kubeconfig b", Err: os.ErrNotExist},
	}})
	if id := got.Identities[0]; id.Err != nil || id.User != "system:node:edge-1" || id.ServerVersion != "v1.37.2" {
		t.Errorf("%+v", id)
	}
	rights := find(got, checkRights)
	var failures []string
	for _, f := range rights {
		if f.Status == Failed {
			failures = append(failures, f.Message)
		}
	}
	if len(rights) != len(NodeRights("edge-1", false))+2 || len(failures) != 1 || !strings.Contains(failures[0], "may not create nodes") {
		t.Errorf("%d findings, of them failed %q", len(rights), failures)
	}
	apis := find(got, checkAPI)
	if len(apis) != 3 || apis[0].Status != OK || !strings.Contains(apis[1].Remedy, "does not know this identity") || apis[2].Status != Failed {
		t.Errorf("%+v", apis)
	}
}

func TestOpenSSHCertificateHasAnEnd(t *testing.T) {
	// A certificate of the key id "edge" that was valid for an hour in 2020, made with ssh-keygen.
	file := filepath.Join("testdata", "expired-cert.pub")
	c := sshCertificate(file)
	if c.Err != nil || c.Leaf.Subject.CommonName != "edge" || c.Leaf.NotAfter.Year() != 2020 {
		t.Fatalf("%+v", c)
	}
	if f := judgeCertificate(c, now); f.Status != Failed || !strings.Contains(f.Message, "has expired") {
		t.Errorf("%+v", f)
	}
	key := filepath.Join(t.TempDir(), "k.pub")
	if err := os.WriteFile(key, []byte("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{key, key + "-missing"} {
		if c := sshCertificate(path); c.Err == nil {
			t.Errorf("%s: %+v", path, c)
		}
	}
}
