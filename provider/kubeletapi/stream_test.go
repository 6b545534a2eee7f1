// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"k8s.io/client-go/tools/remotecommand"
	clientexec "k8s.io/client-go/util/exec"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	server "k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// machine is a runtime's streaming server, the same code that containerd serves with, in front of commands made of Go.
type machine struct {
	streaming streaming.Server
	http      *httptest.Server

	mu sync.Mutex
	// headers are those of the upgrade requests that arrived.
	headers []http.Header
	// asked are the requests for URLs.
	asked []any
	// running has a token per command or forwarded connection that runs.
	running sync.WaitGroup
	// forward serves one forwarded connection.
	forward func(sandbox string, port int32, conn io.ReadWriteCloser) error
}

// newStreamBed is newBed with a machine as the runtime.
func newStreamBed(t *testing.T, change func(*bed, *Options)) (*bed, *machine) {
	t.Helper()
	m := &machine{}
	b := newBed(t, func(b *bed, o *Options) {
		m.start(t)
		b.runtime.exec = func(_ context.Context, r *runtimeapi.ExecRequest) (string, error) {
			return urlOf(m.streaming.GetExec(m.ask(r).(*runtimeapi.ExecRequest)))
		}
		b.runtime.attach = func(_ context.Context, r *runtimeapi.AttachRequest) (string, error) {
			return urlOf(m.streaming.GetAttach(m.ask(r).(*runtimeapi.AttachRequest)))
		}
		b.runtime.portForward = func(_ context.Context, r *runtimeapi.PortForwardRequest) (string, error) {
			return urlOf(m.streaming.GetPortForward(m.ask(r).(*runtimeapi.PortForwardRequest)))
		}
		if change != nil {
			change(b, o)
		}
	})
	return b, m
}

func urlOf[T interface{ GetUrl() string }](resp T, err error) (string, error) {
	if err != nil {
		return "", err
	}
	return resp.GetUrl(), nil
}

func (m *machine) ask(req any) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, req)
	return req
}

func (m *machine) start(t *testing.T) {
	m.http = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.headers = append(m.headers, r.Header.Clone())
		m.mu.Unlock()
		m.streaming.ServeHTTP(w, r)
	}))
	config := streaming.DefaultConfig
	config.BaseURL = &url.URL{Scheme: "http", Host: m.http.Listener.Addr().String(), Path: "/"}
	var err error
	if m.streaming, err = streaming.NewServer(config, m); err != nil {
		t.Fatal(err)
	}
	m.http.Start()
	t.Cleanup(func() {
		m.http.Close()
		m.running.Wait()
	})
}

// Exec runs one of a few commands.
func (m *machine) Exec(
	_ context.Context, id string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan server.TerminalSize,
) error {
	m.running.Add(1)
	defer m.running.Done()
	arg := 0
	if len(cmd) > 1 {
		arg, _ = strconv.Atoi(cmd[1])
	}
	switch cmd[0] {
	case "where":
		_, _ = fmt.Fprintf(out, "%s tty=%v stdin=%v stderr=%v", id, tty, in != nil, errOut != nil)
	case "cat":
		_, err := io.Copy(out, in)
		return err
	case "sum":
		h := sha256.New()
		n, err := io.Copy(h, in)
		_, _ = fmt.Fprintf(out, "%d %x", n, h.Sum(nil))
		return err
	case "make":
		_, err := io.Copy(out, noise(int64(arg)))
		return err
	case "exit":
		_, _ = fmt.Fprint(errOut, "going")
		return utilexec.CodeExitError{Code: arg, Err: errors.New("ended")}
	case "sizes":
		for range arg {
			size := <-resize
			_, _ = fmt.Fprintf(out, "%dx%d ", size.Width, size.Height)
		}
	}
	return nil
}

// Attach echoes.
func (m *machine) Attach(
	ctx context.Context, id string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan server.TerminalSize,
) error {
	if in == nil {
		return m.Exec(ctx, id, []string{"where"}, in, out, errOut, tty, resize)
	}
	return m.Exec(ctx, id, []string{"cat"}, in, out, errOut, tty, resize)
}

// PortForward serves one forwarded connection.
func (m *machine) PortForward(_ context.Context, sandbox string, port int32, conn io.ReadWriteCloser) error {
	m.running.Add(1)
	defer m.running.Done()
	return m.forward(sandbox, port, conn)
}

// noise returns n bytes that are the same every time.
func noise(n int64) io.Reader {
	return io.LimitReader(rand.NewChaCha8([32]byte{7}), n)
}

func checksum(r io.Reader) string {
	h := sha256.New()
	n, _ := io.Copy(h, r)
	return fmt.Sprintf("%d %x", n, h.Sum(nil))
}

// run executes a stream request as kubectl does.
func (b *bed) run(ctx context.Context, path string, o remotecommand.StreamOptions) error {
	u, err := url.Parse(b.url + path)
	if err != nil {
		return err
	}
	executor, err := remotecommand.NewSPDYExecutor(b.config, http.MethodPost, u)
	if err != nil {
		return err
	}
	return executor.StreamWithContext(ctx, o)
}

func TestExecEndsWithItsInput(t *testing.T) {
	b, m := newStreamBed(t, nil)
	var out bytes.Buffer
	err := b.run(t.Context(), "/exec/ns/web/app?command=cat&input=1&output=1", remotecommand.StreamOptions{
		Stdin: strings.NewReader("over the causeway"), Stdout: &out,
	})
	if err != nil || out.String() != "over the causeway" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	want := []any{&runtimeapi.ExecRequest{ContainerId: "c-app", Cmd: []string{"cat"}, Stdin: true, Stdout: true}}
	if diff := cmp.Diff(want, m.asked, cmp.Comparer(func(a, b *runtimeapi.ExecRequest) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("asked of the runtime (-want +got):\n%s", diff)
	}
}

func TestExecPassesTheExitCodeOn(t *testing.T) {
	b, _ := newStreamBed(t, nil)
	for _, code := range []int{3, 137} {
		var stderr bytes.Buffer
		err := b.run(t.Context(), fmt.Sprintf("/exec/ns/web/uid-web/app?command=exit&command=%d&output=1&error=1", code),
			remotecommand.StreamOptions{Stdout: io.Discard, Stderr: &stderr})
		var exit clientexec.CodeExitError
		if !errors.As(err, &exit) || exit.Code != code || stderr.String() != "going" {
			t.Errorf("got %v and stderr %q, want the code %d", err, stderr.String(), code)
		}
	}
}

// sizes yields terminal sizes and then no more.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

func TestExecPassesTerminalSizesOn(t *testing.T) {
	b, _ := newStreamBed(t, nil)
	queue := make(sizes, 2)
	queue <- remotecommand.TerminalSize{Width: 80, Height: 24}
	queue <- remotecommand.TerminalSize{Width: 200, Height: 50}
	defer close(queue)
	var out bytes.Buffer
	// The client asks for stderr as well, which a terminal does not have; that is dropped without a word.
	err := b.run(t.Context(), "/exec/ns/web/app?command=sizes&command=2&output=1&error=1&tty=1",
		remotecommand.StreamOptions{Stdout: &out, Tty: true, TerminalSizeQueue: queue})
	if err != nil || out.String() != "80x24 200x50 " {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

func TestFiftyMegabytesArriveUnchangedBothWays(t *testing.T) {
	const size = 50 << 20
	b, _ := newStreamBed(t, nil)
	want := checksum(noise(size))
	t.Run("in", func(t *testing.T) {
		var out bytes.Buffer
		err := b.run(t.Context(), "/exec/ns/web/app?command=sum&input=1&output=1",
			remotecommand.StreamOptions{Stdin: noise(size), Stdout: &out})
		if err != nil || out.String() != want {
			t.Errorf("got %s, %v; want %s", out.String(), err, want)
		}
	})
	t.Run("out", func(t *testing.T) {
		read, write := io.Pipe()
		got := make(chan string, 1)
		go func() { got <- checksum(read) }()
		err := b.run(t.Context(), fmt.Sprintf("/exec/ns/web/app?command=make&command=%d&output=1", size),
			remotecommand.StreamOptions{Stdout: write})
		_ = write.Close()
		if sum := <-got; err != nil || sum != want {
			t.Errorf("got %s, %v; want %s", sum, err, want)
		}
	})
}

func TestAttachKeepsToTheContainersOwnTerminal(t *testing.T) {
	b, m := newStreamBed(t, nil)
	var out bytes.Buffer
	err := b.run(t.Context(), "/attach/ns/web/app?input=1&output=1&error=1",
		remotecommand.StreamOptions{Stdin: strings.NewReader("hello"), Stdout: &out, Stderr: io.Discard})
	if err != nil || out.String() != "hello" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	out.Reset()
	err = b.run(t.Context(), "/attach/ns/web/uid-web/tty?output=1&tty=1", remotecommand.StreamOptions{Stdout: &out, Tty: true})
	if err != nil || out.String() != "c-tty tty=true stdin=false stderr=false" {
		t.Errorf("got %q, %v", out.String(), err)
	}
	want := []string{
		(&runtimeapi.AttachRequest{ContainerId: "c-app", Stdin: true, Stdout: true, Stderr: true}).String(),
		(&runtimeapi.AttachRequest{ContainerId: "c-tty", Stdout: true, Tty: true}).String(),
	}
	var got []string
	for _, req := range m.asked {
		got = append(got, req.(*runtimeapi.AttachRequest).String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("asked of the runtime (-want +got):\n%s", diff)
	}
}

func TestStreamsThatAreRefused(t *testing.T) {
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
	down := fmt.Errorf("%w: the link to the host is down since 12:00", errdefs.ErrUnavailable)
	ended := func(b *bed, _ *Options) {
		b.view.pods[0].Status.ContainerStatuses[0].State.Running = nil
		b.view.observed["uid-web"].Containers = nil
	}
	tests := []struct {
		desc, path string
		header     http.Header
		change     func(*bed, *Options)
		code       int
		text       string
	}{
		{desc: "no upgrade", path: "/exec/ns/web/app?command=x&output=1", header: http.Header{}, code: 400, text: "Upgrade request required"},
		{desc: "no streams", path: "/exec/ns/web/app?command=x", code: 400, text: "at least 1 of stdin, stdout, stderr"},
		{desc: "only stderr of a terminal", path: "/exec/ns/web/app?command=x&error=1&tty=1", code: 400, text: "at least 1 of"},
		{desc: "no command", path: "/exec/ns/web/app?output=1", code: 400, text: "at least one command"},
		{desc: "unknown pod", path: "/exec/ns/no/app?command=x&output=1", code: 404, text: "pod does not exist"},
		{desc: "another UID", path: "/exec/ns/web/old/app?command=x&output=1", code: 404, text: "pod not found"},
		{desc: "unknown container", path: "/exec/ns/web/no?command=x&output=1", code: 404, text: `container "no" not found in pod "web"`},
		{desc: "exec after the end", path: "/exec/ns/web/setup?command=x&output=1", code: 404, text: `container not found ("setup")`},
		{desc: "exec before the start", path: "/exec/ns/web/app?command=x&output=1", change: ended, code: 404, text: `container not found ("app")`},
		{desc: "attach after the end", path: "/attach/ns/web/setup?output=1", code: 400, text: `container "setup" in pod "web" is not running`},
		{desc: "attach without streams", path: "/attach/ns/web/app", code: 400, text: "at least 1 of"},
		{desc: "attach, unknown pod", path: "/attach/ns/no/app?output=1", code: 404, text: "pod does not exist"},
		{desc: "forward, unknown pod", path: "/portForward/ns/no", code: 404, text: "pod does not exist"},
		{desc: "forward, another UID", path: "/portForward/ns/web/old", code: 404, text: "pod not found"},
		{
			desc: "forward without a sandbox", path: "/portForward/ns/web", code: 404, text: `pod not found ("web_ns")`,
			change: func(b *bed, _ *Options) { b.view.observed["uid-web"].Sandboxes = nil },
		},
		{
			desc: "forward over a WebSocket without ports", path: "/portForward/ns/web", code: 400, text: "port",
			header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}},
		},
		{
			desc: "the host is cut off", path: "/exec/ns/web/app?command=x&output=1", code: 503, text: "down since 12:00",
			change: func(b *bed, _ *Options) {
				b.runtime.exec = func(context.Context, *runtimeapi.ExecRequest) (string, error) { return "", down }
			},
		},
		{
			desc: "the host is cut off before anything was observed", path: "/exec/ns/web/app?command=x&output=1", code: 503,
			text: "down since 12:00",
			change: func(b *bed, o *Options) {
				ended(b, o)
				b.view.failed["uid-web"] = down
			},
		},
		{
			desc: "forward, the host is cut off", path: "/portForward/ns/web", code: 503, text: "down since 12:00",
			change: func(b *bed, _ *Options) { b.view.failed["uid-web"] = down },
		},
		{
			desc: "the runtime does not answer", path: "/attach/ns/web/app?output=1", code: 503, text: "did not answer within 10ms",
			change: func(b *bed, o *Options) {
				o.CallTimeout = 10 * time.Millisecond
				b.runtime.attach = func(ctx context.Context, _ *runtimeapi.AttachRequest) (string, error) {
					<-ctx.Done()
					return "", ctx.Err()
				}
			},
		},
		{
			desc: "the streaming server cannot be dialled", path: "/exec/ns/web/app?command=x&output=1", code: 503, text: "down since 12:00",
			change: func(_ *bed, o *Options) {
				o.Streams = fakeDialer(func(context.Context, string) (net.Conn, error) { return nil, down })
			},
		},
		{
			desc: "dialling hangs", path: "/exec/ns/web/app?command=x&output=1", code: 503, text: "did not answer within 10ms",
			change: func(_ *bed, o *Options) {
				o.CallTimeout = 10 * time.Millisecond
				o.Streams = fakeDialer(func(ctx context.Context, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				})
			},
		},
		{
			desc: "the streaming server is silent", path: "/exec/ns/web/app?command=x&output=1", code: 503, text: "did not answer within 10ms",
			change: func(_ *bed, o *Options) {
				o.CallTimeout = 10 * time.Millisecond
				o.Streams = fakeDialer(func(context.Context, string) (net.Conn, error) {
					near, far := net.Pipe()
					go func() { _, _ = io.Copy(io.Discard, far) }()
					return near, nil
				})
			},
		},
		{
			desc: "the streaming server hangs up", path: "/exec/ns/web/app?command=x&output=1", code: 503, text: "unexpected EOF",
			change: func(_ *bed, o *Options) {
				o.Streams = fakeDialer(func(context.Context, string) (net.Conn, error) { return answering(""), nil })
			},
		},
		{
			desc: "the streaming server does not upgrade", path: "/exec/ns/web/app?command=x&output=1", code: 500, text: `"200 OK"`,
			change: func(_ *bed, o *Options) {
				o.Streams = fakeDialer(func(context.Context, string) (net.Conn, error) {
					return answering("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), nil
				})
			},
		},
		{
			desc: "the runtime has too many streams", path: "/exec/ns/web/app?command=x&output=1", code: 429, text: "too many",
			change: func(b *bed, _ *Options) {
				b.runtime.exec = func(context.Context, *runtimeapi.ExecRequest) (string, error) {
					return "", fmt.Errorf("%w: too many", errdefs.ErrResourceExhausted)
				}
			},
		},
		{
			desc: "the runtime refuses", path: "/exec/ns/web/app?command=x&output=1", code: 500, text: "container is in CONTAINER_EXITED state",
			change: func(b *bed, _ *Options) {
				b.runtime.exec = func(context.Context, *runtimeapi.ExecRequest) (string, error) {
					return "", errors.New("container is in CONTAINER_EXITED state")
				}
			},
		},
		{
			desc: "a URL without a port", path: "/exec/ns/web/app?command=x&output=1", code: 500, text: "must be http(s)://host:port/path",
			change: func(b *bed, _ *Options) {
				b.runtime.exec = func(context.Context, *runtimeapi.ExecRequest) (string, error) { return "http://host/x", nil }
			},
		},
		{
			desc: "the URL was used up", path: "/exec/ns/web/app?command=x&output=1", code: 404, text: "404",
			change: func(b *bed, _ *Options) {
				before := b.runtime.exec
				b.runtime.exec = func(ctx context.Context, r *runtimeapi.ExecRequest) (string, error) {
					u, err := before(ctx, r)
					return u + "x", err
				}
			},
		},
	}
	for _, test := range tests {
		t.Run(test.desc, func(t *testing.T) {
			b, _ := newStreamBed(t, test.change)
			header := test.header
			if header == nil {
				header = upgrade
			}
			code, body := b.do(t, b.client(t, "admin", nil), http.MethodPost, test.path, header)
			if code != test.code || !strings.Contains(body, test.text) {
				t.Errorf("got %d %q, want %d and %q in it", code, body, test.code, test.text)
			}
		})
	}
}

// answering is a connection that takes anything, says text and hangs up.
func answering(text string) net.Conn {
	near, far := net.Pipe()
	go func() {
		buf := make([]byte, 4096)
		_, _ = far.Read(buf)
		_, _ = io.WriteString(far, text)
		_ = far.Close()
	}()
	return near
}

func TestRequestsFailAtOnceWithTheReasonWhileTheLinkIsDown(t *testing.T) {
	const why = "link to host tls://192.0.2.7:8470 is down since 12:00"
	for path, code := range map[string]int{
		"/containerLogs/ns/web/app": 500, "/containerLogs/ns/web/app?follow=true": 500,
		"/exec/ns/web/app?command=x&output=1": 503, "/attach/ns/web/app?output=1": 503, "/portForward/ns/web": 503,
	} {
		t.Run(path, func(t *testing.T) {
			b, m := newStreamBed(t, func(b *bed, o *Options) {
				o.LinkDown = func() error { return fmt.Errorf("%w: %s", errdefs.ErrUnavailable, why) }
				b.logs.tail = func(context.Context, string) error { t.Error("the host was asked for a log"); return nil }
			})
			method, header := http.MethodGet, http.Header(nil)
			if code == 503 {
				method, header = http.MethodPost, http.Header{"Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"}}
			}
			got, body := b.do(t, b.client(t, "admin", nil), method, path, header)
			if got != code || !strings.Contains(body, why) {
				t.Errorf("got %d %q, want %d and %q in it", got, body, code, why)
			}
			if len(m.asked) != 0 {
				t.Errorf("the runtime was asked %v", m.asked)
			}
		})
	}
}

func TestTheStatusOfTheAPIServesUntilTheFirstObservation(t *testing.T) {
	b, m := newStreamBed(t, func(b *bed, _ *Options) { delete(b.view.observed, "uid-web") })
	var out bytes.Buffer
	err := b.run(t.Context(), "/exec/ns/web/app?command=where&output=1", remotecommand.StreamOptions{Stdout: &out})
	if err != nil || !strings.HasPrefix(out.String(), "c-app ") {
		t.Errorf("got %q, %v (%d requests)", out.String(), err, len(m.asked))
	}
}

func TestCredentialsStayInTheCluster(t *testing.T) {
	b, m := newStreamBed(t, nil)
	header := http.Header{
		"Authorization": {"Bearer admin"}, "Cookie": {"session=1"}, "Impersonate-User": {"root"}, "X-Remote-User": {"root"},
		"Sec-Websocket-Protocol": {"v4.channel.k8s.io"},
	}
	conn := b.dialWebSocket(t, "/exec/ns/web/app?command=where&output=1", header)
	_ = conn.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.headers) != 1 {
		t.Fatalf("%d requests arrived at the streaming server", len(m.headers))
	}
	for _, name := range []string{"Authorization", "Cookie", "Impersonate-User", "X-Remote-User"} {
		if value := m.headers[0].Get(name); value != "" {
			t.Errorf("the host was shown %s: %s", name, value)
		}
	}
}

func (b *bed) dialWebSocket(t *testing.T, path string, header http.Header) *websocket.Conn {
	t.Helper()
	dialer := websocket.Dialer{TLSClientConfig: insecure()}
	if header.Get("Sec-Websocket-Protocol") == "" {
		dialer.Subprotocols = []string{"v4.channel.k8s.io"}
	}
	conn, resp, err := dialer.DialContext(t.Context(), "wss"+strings.TrimPrefix(b.url, "https")+path, header)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return conn
}

func TestExecOverAWebSocket(t *testing.T) {
	b, _ := newStreamBed(t, nil)
	conn := b.dialWebSocket(t, "/exec/ns/web/app?command=exit&command=3&output=1&error=1", http.Header{"Authorization": {"Bearer admin"}})
	defer func() { _ = conn.Close() }()
	channels := map[byte]string{}
	for {
		_, message, err := conn.ReadMessage()
		if err != nil {
			if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
				t.Errorf("the connection ended with %v", err)
			}
			break
		}
		channels[message[0]] += string(message[1:])
	}
	if channels[2] != "going" || !strings.Contains(channels[3], `"message":"3"`) {
		t.Errorf("got %q", channels)
	}
}

func TestAStreamEndsWithItsClient(t *testing.T) {
	for _, test := range []struct {
		desc string
		end  func(b *bed, client context.CancelFunc)
	}{
		{"the client goes away", func(_ *bed, client context.CancelFunc) { client() }},
		{"the server ends", func(b *bed, _ context.CancelFunc) { b.stop() }},
	} {
		t.Run(test.desc, func(t *testing.T) {
			b, m := newStreamBed(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			stdin, feed := io.Pipe()
			defer func() { _ = feed.Close() }()
			echo, out := io.Pipe()
			ended := make(chan error, 1)
			go func() {
				ended <- b.run(ctx, "/exec/ns/web/app?command=cat&input=1&output=1", remotecommand.StreamOptions{Stdin: stdin, Stdout: out})
			}()
			_, _ = io.WriteString(feed, "x")
			if _, err := echo.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			test.end(b, cancel)
			// The command on the host ends, without being told otherwise.
			m.running.Wait()
			if err := <-ended; err == nil && test.desc != "the server ends" {
				t.Error("the client saw a proper end")
			}
			_ = echo.Close()
		})
	}
}
