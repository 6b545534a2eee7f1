// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tombolo-dev/tombolo/host"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func TestLogOptionsBecomeARequest(t *testing.T) {
	all := host.LogRequest{Path: "/p", ContainerID: "c", TailLines: -1, LimitBytes: -1}
	with := func(change func(*host.LogRequest)) host.LogRequest {
		r := all
		change(&r)
		return r
	}
	tests := []struct {
		query string
		want  host.LogRequest
	}{
		{"", all},
		{"container=app&insecureSkipTLSVerifyBackend=true", all},
		{"follow=true", with(func(r *host.LogRequest) { r.Follow = true })},
		{"follow", with(func(r *host.LogRequest) { r.Follow = true })},
		{"follow=1&timestamps=1", with(func(r *host.LogRequest) { r.Follow, r.Timestamps = true, true })},
		{"follow=false&timestamps=0", all},
		{"tailLines=0", with(func(r *host.LogRequest) { r.TailLines = 0 })},
		{"tailLines=7", with(func(r *host.LogRequest) { r.TailLines = 7 })},
		{"tail=7", with(func(r *host.LogRequest) { r.TailLines = 7 })},
		{"tail=all&tailLines=7", all},
		{"limitBytes=9", with(func(r *host.LogRequest) { r.LimitBytes = 9 })},
		{"sinceSeconds=60", with(func(r *host.LogRequest) { r.Since = now.Add(-time.Minute) })},
		{"sinceSeconds=9223372036854775807", with(func(r *host.LogRequest) {
			r.Since = now.Add(-time.Duration(math.MaxInt64 / int64(time.Second) * int64(time.Second)))
		})},
		{"sinceTime=2026-03-04T05:00:00Z", with(func(r *host.LogRequest) { r.Since = now.Add(-6*time.Minute - 7*time.Second) })},
		{"stream=All", all},
		{"previous=true", all},
	}
	for _, test := range tests {
		t.Run(test.query, func(t *testing.T) {
			opts, err := parseLogOptions(mustQuery(t, test.query))
			if err != nil {
				t.Fatal(err)
			}
			if opts.Previous != strings.Contains(test.query, "previous") {
				t.Errorf("previous is %v", opts.Previous)
			}
			if diff := cmp.Diff(test.want, logRequest(opts, "/p", "c", now)); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWrongLogOptionsAreNamed(t *testing.T) {
	tests := []struct {
		query string
		code  int
		text  string
	}{
		{"tailLines=x", http.StatusBadRequest, "tailLines"},
		{"tailLines=", http.StatusBadRequest, "tailLines"},
		{"limitBytes=1.5", http.StatusBadRequest, "limitBytes"},
		{"sinceSeconds=1h", http.StatusBadRequest, "sinceSeconds"},
		{"sinceTime=yesterday", http.StatusBadRequest, "sinceTime"},
		{"tailLines=-1", http.StatusUnprocessableEntity, "tailLines"},
		{"tail=-1", http.StatusUnprocessableEntity, "tailLines"},
		{"limitBytes=0", http.StatusUnprocessableEntity, "limitBytes"},
		{"sinceSeconds=0", http.StatusUnprocessableEntity, "sinceSeconds"},
		{"sinceSeconds=1&sinceTime=2026-03-04T05:00:00Z", http.StatusUnprocessableEntity, "not both"},
		{"stream=Stdout", http.StatusBadRequest, "stream"},
	}
	for _, test := range tests {
		t.Run(test.query, func(t *testing.T) {
			_, err := parseLogOptions(mustQuery(t, test.query))
			if err == nil {
				t.Fatal("accepted")
			}
			if logStatus(err) != test.code || !strings.Contains(err.Error(), test.text) {
				t.Errorf("status %d, %q; want %d and %q in it", logStatus(err), err, test.code, test.text)
			}
		})
	}
}

func FuzzLogOptions(f *testing.F) {
	for _, seed := range []string{
		"follow=true&tailLines=0", "sinceTime=2026-03-04T05:00:00Z", "sinceSeconds=1&limitBytes=1", "tail=all", "stream=Stderr", "follow&&&=",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		query, err := url.ParseQuery(raw)
		if err != nil {
			t.Skip("no server sees a query that cannot be parsed")
		}
		opts, err := parseLogOptions(query)
		if err != nil {
			var status *statusError
			if !errors.As(err, &status) || status.code/100 != 4 {
				t.Fatalf("error %v has no 4xx status", err)
			}
			return
		}
		req := logRequest(opts, "/p", "c", now)
		if req.TailLines < -1 || req.LimitBytes == 0 || req.LimitBytes < -1 || req.Since.After(now) && opts.SinceTime == nil {
			t.Fatalf("%q became %+v", raw, req)
		}
	})
}

func FuzzStreamOptions(f *testing.F) {
	for _, seed := range []string{"input=1&tty=1", "output=1&error=1&tty=true", "stdout=true", "error=1&tty=1", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		query, err := url.ParseQuery(raw)
		if err != nil {
			t.Skip("no server sees a query that cannot be parsed")
		}
		opts, err := parseStreamOptions(query)
		if some := opts.stdin || opts.stdout || opts.stderr; some == (err != nil) {
			t.Fatalf("%q gave %+v and %v", raw, opts, err)
		}
		if opts.tty && opts.stderr {
			t.Fatalf("%q asks for a terminal and for its error output", raw)
		}
	})
}

func mustQuery(t *testing.T, raw string) url.Values {
	t.Helper()
	query, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	return query
}
