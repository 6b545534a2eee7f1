// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func TestIdentityFlagsThatDoNotGoTogetherAreNamed(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"two identities":           {[]string{"--kubeconfig=k", "--bootstrap-kubeconfig=b"}, "--bootstrap-kubeconfig is for getting an identity"},
		"relative directory":       {[]string{"--cert-dir=here"}, `--cert-dir "here"`},
		"two serving certificates": {[]string{"--rotate-server-certificates", "--tls-cert-file=c", "--tls-private-key-file=k"}, "--rotate-server-certificates gets"},
		"two authorities":          {[]string{"--client-ca-from-cluster", "--client-ca-file=c"}, "--client-ca-from-cluster finds"},
		"address":                  {[]string{"--metrics-address=far"}, `--metrics-address "far"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseNode(t, tc.args...).validate()
			var usage usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error = %v, want one of usage with %q", err, tc.want)
			}
		})
	}
}

func TestWhichIdentityIsOnlyForAsking(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(`{"clusters":[{"name":"c","cluster":{"server":"https://192.0.2.1:6443"}}],"users":[{"name":"u","user":{"token":"t"}}],"contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"current-context":"x"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]bool{"--kubeconfig=": false, "--bootstrap-kubeconfig=": true} {
		config, bootstrap, err := parseNode(t, flag+file).restConfig()
		if err != nil || bootstrap != want || config.Host != "https://192.0.2.1:6443" || config.BearerToken != "t" {
			t.Errorf("%s: %+v, only for asking: %v, error %v", flag, config, bootstrap, err)
		}
	}
}

func TestChecksAnswerWithTheirReason(t *testing.T) {
	server, err := newMetricsServer(t.Context(), "127.0.0.1:0", prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	broken := errors.New("nobody has approved it")
	server.handle("GET /good", func() error { return nil })
	server.handle("GET /bad", func() error { return broken })
	done := make(chan error, 1)
	go func() { done <- server.serve(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	for path, want := range map[string]struct {
		code int
		body string
	}{"/good": {http.StatusOK, "ok\n"}, "/bad": {http.StatusServiceUnavailable, "nobody has approved it\n"}} {
		response, err := http.Get("http://" + server.address() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != want.code || string(body) != want.body {
			t.Errorf("%s: %d %q %v, want %d %q", path, response.StatusCode, body, err, want.code, want.body)
		}
	}
}

func TestWhoConnectsToTheMetricsAndIsSilentIsNotPutUpWithForEver(t *testing.T) {
	server, err := newMetricsServer(t.Context(), "127.0.0.1:0", prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	defer server.listener.Close()
	s := server.server
	for name, limit := range map[string]time.Duration{
		"header": s.ReadHeaderTimeout, "request": s.ReadTimeout, "answer": s.WriteTimeout, "idle": s.IdleTimeout,
	} {
		if limit <= 0 || limit > 2*time.Minute {
			t.Errorf("%s: %v", name, limit)
		}
	}
}
