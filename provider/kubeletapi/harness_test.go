// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/klog/v2"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

const nodeName = "island-1"

// checkLeaks fails the test if goroutines are left when everything else of it was cleaned up. It is to be called first.
func checkLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		err := goleak.Find(before)
		// A SPDY connection of either end may take a second to notice that it is closed.
		for tries := 0; err != nil && tries < 20; tries++ {
			time.Sleep(100 * time.Millisecond)
			err = goleak.Find(before)
		}
		if err != nil {
			t.Errorf("goroutines were left: %v", err)
		}
	})
}

// reviews is an API server that knows the callers of the tests: the token "admin" may do everything, "guest" nothing.
type reviews struct {
	server *httptest.Server
	client kubernetes.Interface

	mu    sync.Mutex
	asked []authorizationv1.ResourceAttributes
	// allow decides for the user "admin"; nil allows. broken makes SubjectAccessReviews fail.
	allow  func(authorizationv1.ResourceAttributes) bool
	broken bool
}

func newReviews(t *testing.T) *reviews {
	t.Helper()
	r := &reviews{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /apis/authentication.k8s.io/v1/tokenreviews", r.token)
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/subjectaccessreviews", r.access)
	r.server = httptest.NewServer(mux)
	client := &http.Client{Transport: &http.Transport{}}
	var err error
	r.client, err = kubernetes.NewForConfigAndClient(&rest.Config{
		Host: r.server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}, QPS: -1,
	}, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		r.server.Close()
	})
	return r
}

func (rv *reviews) token(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	switch review.Spec.Token {
	case "admin", "guest":
		review.Status = authenticationv1.TokenReviewStatus{
			Authenticated: true, User: authenticationv1.UserInfo{Username: review.Spec.Token},
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

func (rv *reviews) access(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	_ = json.NewDecoder(r.Body).Decode(&review)
	rv.mu.Lock()
	defer rv.mu.Unlock()
	if rv.broken {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	rv.asked = append(rv.asked, *review.Spec.ResourceAttributes)
	review.Status.Allowed = review.Spec.User != "guest" && (rv.allow == nil || rv.allow(*review.Spec.ResourceAttributes))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review)
}

// fakeView is a PodView of fixed answers.
type fakeView struct {
	mu       sync.Mutex
	pods     []*v1.Pod
	observed map[types.UID]*cri.PodStatus
	failed   map[types.UID]error
	statuses map[types.UID]v1.PodStatus
}

func (f *fakeView) Pods() []*v1.Pod { return f.pods }

func (f *fakeView) Pod(namespace, name string) (*v1.Pod, bool) {
	for _, pod := range f.pods {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

func (f *fakeView) RuntimeStatus(uid types.UID) (*cri.PodStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.failed[uid]; err != nil {
		return nil, err
	}
	if status, ok := f.observed[uid]; ok {
		return status, nil
	}
	return &cri.PodStatus{UID: uid}, nil
}

func (f *fakeView) Status(uid types.UID) (v1.PodStatus, bool) {
	status, ok := f.statuses[uid]
	return status, ok
}

// fakeRuntime gives what its functions return.
type fakeRuntime struct {
	exec        func(context.Context, *runtimeapi.ExecRequest) (string, error)
	attach      func(context.Context, *runtimeapi.AttachRequest) (string, error)
	portForward func(context.Context, *runtimeapi.PortForwardRequest) (string, error)
}

func (f *fakeRuntime) Exec(ctx context.Context, r *runtimeapi.ExecRequest) (string, error) {
	return f.exec(ctx, r)
}

func (f *fakeRuntime) Attach(ctx context.Context, r *runtimeapi.AttachRequest) (string, error) {
	return f.attach(ctx, r)
}

func (f *fakeRuntime) PortForward(ctx context.Context, r *runtimeapi.PortForwardRequest) (string, error) {
	return f.portForward(ctx, r)
}

// fakeLogs gives what its functions return.
type fakeLogs struct {
	log  func(ctx context.Context, req host.LogRequest, stdout, stderr io.Writer) error
	tail func(ctx context.Context, path string) error
}

func (f *fakeLogs) ReadLog(ctx context.Context, req host.LogRequest, stdout, stderr io.Writer) error {
	return f.log(ctx, req, stdout, stderr)
}

func (f *fakeLogs) ReadTail(ctx context.Context, path string, _ int64) ([]byte, error) {
	if f.tail == nil {
		return nil, nil
	}
	return nil, f.tail(ctx, path)
}

// fakeDialer dials what it is told to, like a host whose loopback is ours.
type fakeDialer func(ctx context.Context, address string) (net.Conn, error)

func (f fakeDialer) DialStreaming(ctx context.Context, address string) (net.Conn, error) {
	return f(ctx, address)
}

func dialDirectly(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", address)
}

// bed is a running server with everything around it.
type bed struct {
	reviews *reviews
	view    *fakeView
	runtime *fakeRuntime
	logs    *fakeLogs
	server  *Server
	url     string
	// config is for clients with the token "admin".
	config *rest.Config
	stop   context.CancelFunc
	done   chan error
}

// newBed starts a server. change may alter its options.
func newBed(t *testing.T, change func(*bed, *Options)) *bed {
	t.Helper()
	checkLeaks(t)
	b := &bed{reviews: newReviews(t), view: newView(), runtime: &fakeRuntime{}, logs: &fakeLogs{}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		NodeName: nodeName, Listener: listener, Reviews: b.reviews.client,
		TLS:  TLSOptions{CertFile: certFile, KeyFile: keyFile, ClientCAFile: caFile},
		Pods: b.view, Runtime: b.runtime, Logs: b.logs, Streams: fakeDialer(dialDirectly),
	}
	if change != nil {
		change(b, &o)
	}
	if b.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	b.url = "https://" + listener.Addr().String()
	b.config = &rest.Config{Host: b.url, BearerToken: "admin", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	ctx, cancel := context.WithCancel(context.Background())
	b.stop, b.done = cancel, make(chan error, 1)
	go func() { b.done <- b.server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-b.done; err != nil {
			t.Errorf("Run returned %v", err)
		}
	})
	return b
}

// client returns an HTTP client that shows a token ("" for none) and a client certificate (nil for none).
func (b *bed) client(t *testing.T, token string, cert *tls.Certificate) *http.Client {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true}
	if cert != nil {
		config.Certificates = []tls.Certificate{*cert}
	}
	transport := &http.Transport{TLSClientConfig: config}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: withToken{token, transport}}
}

type withToken struct {
	token string
	next  http.RoundTripper
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	return w.next.RoundTrip(r)
}

// get returns the status and body of a GET by admin.
func (b *bed) get(t *testing.T, path string) (int, string) {
	t.Helper()
	return b.do(t, b.client(t, "admin", nil), http.MethodGet, path, nil)
}

func (b *bed) do(t *testing.T, client *http.Client, method, path string, header http.Header) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, b.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	if header == nil {
		req.Header = http.Header{}
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// newView has one pod "ns/web" with an init container "setup", the containers "app" and "tty", and a ready sandbox.
func newView() *fakeView {
	running := v1.ContainerState{Running: &v1.ContainerStateRunning{}}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "uid-web"},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "setup", Image: "img"}},
			Containers:     []v1.Container{{Name: "app", Image: "img"}, {Name: "tty", Image: "img", TTY: true, Stdin: true}},
		},
		Status: v1.PodStatus{
			Phase: v1.PodRunning,
			InitContainerStatuses: []v1.ContainerStatus{{
				Name: "setup", ContainerID: "containerd://c-setup",
				State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ContainerID: "containerd://c-setup"}},
			}},
			ContainerStatuses: []v1.ContainerStatus{
				{Name: "app", ContainerID: "containerd://c-app", RestartCount: 1, State: running, LastTerminationState: v1.ContainerState{
					Terminated: &v1.ContainerStateTerminated{ContainerID: "containerd://c-app-0"},
				}},
				{Name: "tty", ContainerID: "containerd://c-tty", State: running},
			},
		},
	}
	return &fakeView{
		pods: []*v1.Pod{pod},
		observed: map[types.UID]*cri.PodStatus{"uid-web": {
			UID: "uid-web", Namespace: "ns", Name: "web",
			Sandboxes: []cri.SandboxStatus{{ID: "s-web", Ready: true}},
			Containers: []cri.ContainerStatus{
				{ID: "c-app", Name: "app", Image: "img", State: cri.ContainerRunning, LogPath: "/logs/app/1.log"},
				{ID: "c-tty", Name: "tty", Image: "img", State: cri.ContainerRunning, LogPath: "/logs/tty/0.log"},
				{ID: "c-setup", Name: "setup", Image: "img", State: cri.ContainerExited, LogPath: "/logs/setup/0.log"},
			},
		}},
		failed:   map[types.UID]error{},
		statuses: map[types.UID]v1.PodStatus{},
	}
}

// The serving certificate and client authority of all tests, made once.
var (
	certFile, keyFile, caFile string
	adminCert, strangerCert   *tls.Certificate
)

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	dir, err := os.MkdirTemp("", "kubeletapi")
	if err != nil {
		panic(err)
	}
	certFile, keyFile, caFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"), filepath.Join(dir, "ca.crt")
	ca, stranger := newAuthority("cluster"), newAuthority("stranger")
	ca.writeServing(certFile, keyFile, "first")
	writeFile(caFile, pemBlock("CERTIFICATE", ca.cert.Raw))
	adminCert, strangerCert = ca.issue("admin"), stranger.issue("admin")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// authority issues certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(name string) *authority {
	key := newKey()
	template := certificate(name)
	template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
	return &authority{must(x509.ParseCertificate(der)), key}
}

func (a *authority) issue(name string) *tls.Certificate {
	key := newKey()
	der := must(x509.CreateCertificate(rand.Reader, certificate(name), a.cert, key.Public(), a.key))
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) writeServing(certPath, keyPath, name string) {
	cert := a.issue(name)
	writeFile(keyPath, pemBlock("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(cert.PrivateKey))))
	writeFile(certPath, pemBlock("CERTIFICATE", cert.Certificate[0]))
}

func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: must(rand.Int(rand.Reader, big.NewInt(1<<62))), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
}

func newKey() *ecdsa.PrivateKey { return must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)) }

func pemBlock(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func writeFile(path string, data []byte) {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func mustDecode(t *testing.T, body string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), into); err != nil {
		t.Fatalf("decoding %q: %v", body, err)
	}
}

func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }
