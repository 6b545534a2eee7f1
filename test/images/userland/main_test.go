// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestCurlAnswersAsTestsExpect(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Seen", r.Header.Get("X-Sent"))
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprintf(w, "%s %s", r.Method, r.URL)
	}))
	defer server.Close()
	for _, tc := range []struct {
		name string
		args string
		want string
		code int
	}{
		{"the body", "-g -q -s SERVER/dial?request=x", "GET /dial?request=x", 0},
		{"several options in one word", "-gqs --max-time 15 --connect-timeout 1 SERVER/a", "GET /a", 0},
		{"the status only", "-s -o /dev/null -w %{http_code} SERVER/missing", "404", 0},
		{"a status that is no success is an answer", "SERVER/missing", "GET /missing", 0},
		{"unless told otherwise", "-f SERVER/missing", "GET /missing", 1},
		{"a method", "-X POST SERVER/a", "POST /a", 0},
		{"headers", "-i -H X-Sent:yes SERVER/a", "X-Seen: yes", 0},
		{"headers only", "-sI SERVER/a", "HTTP/1.1 200 OK", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := strings.Fields("/usr/bin/curl " + strings.ReplaceAll(tc.args, "SERVER", server.URL))
			if code := run(args, &out, &errs); code != tc.code || !strings.Contains(out.String(), tc.want) {
				t.Errorf("code %d, want %d; output %q, want %q in it; errors %q", code, tc.code, out.String(), tc.want, errs.String())
			}
		})
	}
}

func TestCurlFailsWithoutAServer(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"curl", "--connect-timeout", "1", "http://127.0.0.1:1/"}, &out, &errs); code != 1 || errs.Len() == 0 {
		t.Errorf("code %d, errors %q", code, errs.String())
	}
}

func TestNnpPrintsTheEffectiveUser(t *testing.T) {
	var out bytes.Buffer
	if code := run([]string{"nnp"}, &out, &out); code != 0 || out.String() != fmt.Sprintf("Effective uid: %d\n", os.Geteuid()) {
		t.Errorf("code %d, output %q", code, out.String())
	}
}
