// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tombolo-dev/tombolo/host"
)

func TestStatusDecidesAndTheBodyOfAFailureIsNotShown(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &code); err != nil {
			t.Error(err)
		}
		w.WriteHeader(code)
		if code != http.StatusNoContent && code != http.StatusNotModified {
			_, _ = fmt.Fprint(w, "body")
		}
	})
	for code, want := range map[int]*host.ProbeResult{
		200: {Outcome: host.ProbeSuccess, Output: "body"},
		204: {Outcome: host.ProbeSuccess},
		299: {Outcome: host.ProbeSuccess, Output: "body"},
		// Without a place to go to these are not followed, and are no ordinary answers either.
		300: {Outcome: host.ProbeWarning, Output: "Probe terminated redirects, Response body: body"},
		304: {Outcome: host.ProbeWarning, Output: "Probe terminated redirects, Response body: "},
		400: failure("HTTP probe failed with statuscode: 400"),
		404: failure("HTTP probe failed with statuscode: 404"),
		500: failure("HTTP probe failed with statuscode: 500"),
		599: failure("HTTP probe failed with statuscode: 599"),
	} {
		if diff := cmp.Diff(want, try(t, host.ProbeRequest{HTTPGet: request(t, server, fmt.Sprintf("/%d", code))})); diff != "" {
			t.Errorf("%d: %s", code, diff)
		}
	}
}

func TestRedirectsAreFollowedOnTheSameHostName(t *testing.T) {
	var hops atomic.Int32
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the other host was asked") })
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/once":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/other":
			w.Header().Set("Location", strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
			w.WriteHeader(http.StatusFound)
			_, _ = fmt.Fprint(w, "go there")
		case "/loop":
			hops.Add(1)
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			_, _ = fmt.Fprint(w, "end")
		}
	})
	for path, want := range map[string]*host.ProbeResult{
		"/once":  {Outcome: host.ProbeSuccess, Output: "end"},
		"/other": {Outcome: host.ProbeWarning, Output: "Probe terminated redirects, Response body: go there"},
		"/loop":  failure(`Get "/loop": stopped after 10 redirects`),
	} {
		if diff := cmp.Diff(want, try(t, host.ProbeRequest{HTTPGet: request(t, server, path)})); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if n := hops.Load(); n != maxRedirects {
		t.Errorf("%d hops", n)
	}
}

func TestHeadersAreSentAsTheyAreGiven(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1") // is not used
	var got *http.Request
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	headers := []host.Header{
		{Name: "User-Agent", Value: "kube-probe/1.37"}, {Name: "x-twice", Value: "a"}, {Name: "X-Twice", Value: "b"},
		{Name: "host", Value: "example.org"}, {Name: "Accept", Value: ""},
	}
	if result := try(t, host.ProbeRequest{HTTPGet: request(t, server, "/p%20q/r?x=1&y=%2F", headers...)}); result.Outcome != host.ProbeSuccess {
		t.Fatalf("got %+v", result)
	}
	want := http.Header{"User-Agent": {"kube-probe/1.37"}, "X-Twice": {"a", "b"}, "Connection": {"close"}}
	if diff := cmp.Diff(want, got.Header); diff != "" {
		t.Error(diff)
	}
	if got.Host != "example.org" || got.RequestURI != "/p%20q/r?x=1&y=%2F" || got.Method != http.MethodGet {
		t.Errorf("host %q, %s %s", got.Host, got.Method, got.RequestURI)
	}
}

func TestPathThatIsNoURLIsPassedOn(t *testing.T) {
	var asked string
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.Path })
	if result := try(t, host.ProbeRequest{HTTPGet: request(t, server, "/100%")}); result.Outcome != host.ProbeSuccess || asked != "/100%" {
		t.Errorf("got %+v, asked for %q", result, asked)
	}
}

func TestCertificatesAreNotVerified(t *testing.T) {
	var major int
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { major = r.ProtoMajor }))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	if result := try(t, host.ProbeRequest{HTTPGet: request(t, server, "/")}); result.Outcome != host.ProbeSuccess || major != 2 {
		t.Errorf("got %+v over HTTP/%d", result, major)
	}
}

func TestServerThatIsTooSlowFails(t *testing.T) {
	for name, handle := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"no answer": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"context deadline exceeded (Client.Timeout exceeded while awaiting headers)"},
		"half an answer": {func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "context deadline exceeded (Client.Timeout or context cancellation while reading body)"},
	} {
		t.Run(name, func(t *testing.T) {
			server := serve(t, handle.serve)
			tryLonger(t, host.ProbeRequest{HTTPGet: request(t, server, "/")}, func(time.Duration) string { return handle.want })
		})
	}
}

func TestServerThatIsNotThereFails(t *testing.T) {
	address := freePort(t)
	name, port := target(t, address)
	want := failure(fmt.Sprintf(`Get "http://%s/x": dial tcp %s: connect: connection refused`, address, address))
	if diff := cmp.Diff(want, try(t, host.ProbeRequest{HTTPGet: &host.HTTPRequest{Scheme: "http", Host: name, Port: port, Path: "/x"}})); diff != "" {
		t.Error(diff)
	}
}

func TestEveryAnswerToAHookIsASuccess(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/error":
			w.WriteHeader(http.StatusInternalServerError)
		case "/other":
			http.Redirect(w, r, "http://other.invalid/", http.StatusFound)
		}
	})
	for _, path := range []string{"/", "/error", "/other"} {
		if fallback, err := Hook(t.Context(), request(t, server, path)); fallback || err != nil {
			t.Errorf("%s: %v, %v", path, fallback, err)
		}
	}
	name, port := target(t, freePort(t))
	if _, err := Hook(t.Context(), &host.HTTPRequest{Scheme: "http", Host: name, Port: port}); err == nil {
		t.Error("no server: success")
	}
}

func TestHookWaitsForTheEndOfAnAnswer(t *testing.T) {
	ended := false
	server := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		time.Sleep(50 * time.Millisecond)
		ended = true
	})
	if _, err := Hook(t.Context(), request(t, server, "/")); err != nil || !ended {
		t.Errorf("%v, ended %v", err, ended)
	}
}

func TestHookEndsWithItsContext(t *testing.T) {
	for name, handle := range map[string]http.HandlerFunc{
		"no answer": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"half an answer": func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if _, err := Hook(ctx, request(t, serve(t, handle), "/")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHookForHTTPSFallsBackToHTTPWithoutCredentials(t *testing.T) {
	var asked []http.Header
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { asked = append(asked, r.Header) })
	req := request(t, server, "/", host.Header{Name: "authorization", Value: "secret"}, host.Header{Name: "X-Kept", Value: "1"})
	req.Scheme = "https"
	fallback, err := Hook(t.Context(), req)
	if !fallback || err != nil {
		t.Fatalf("%v, %v", fallback, err)
	}
	if len(asked) != 1 || asked[0].Get("Authorization") != "" || asked[0].Get("X-Kept") != "1" {
		t.Errorf("asked with %v", asked)
	}
	if len(req.Headers) != 2 || req.Scheme != "https" {
		t.Errorf("the request was changed: %+v", req)
	}
}

func TestHookThatFailsAfterTheFallbackTellsTheFirstError(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	}))
	server.Start()
	t.Cleanup(server.Close)
	req := request(t, server, "/")
	req.Scheme = "https"
	if fallback, err := Hook(t.Context(), req); fallback || !errors.Is(err, http.ErrSchemeMismatch) || calls.Load() == 0 {
		t.Errorf("%v, %v, %d calls", fallback, err, calls.Load())
	}
}

func FuzzAnswerOfAnHTTPServer(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "HTTP/1.1 302 Found\r\nLocation: :\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n\xff",
		"HTTP/1.0 999 ?\r\n\r\n", "SSH-2.0-x\r\n", "", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		name, port := target(t, answerOnce(t, answer))
		checkResult(t, host.ProbeRequest{HTTPGet: &host.HTTPRequest{Scheme: "http", Host: name, Port: port}, Timeout: time.Second})
	})
}
