// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
)

// server is an HTTPS server that asks for certificates of an authority and says whose it got.
func server(t *testing.T, a *authority, handle http.HandlerFunc) (*httptest.Server, *rest.Config) {
	t.Helper()
	s := httptest.NewUnstartedServer(handle)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, &rest.Config{Host: s.URL, BearerToken: "bootstrap", TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}),
	}}
}

func caller(r *http.Request) string {
	if len(r.TLS.PeerCertificates) == 0 {
		return "anonymous"
	}
	return r.TLS.PeerCertificates[0].SerialNumber.String()
}

func TestANewCertificateIsUsedAtOnceAndOpenRequestsGoOn(t *testing.T) {
	a := newAuthority(t)
	proceed := make(chan struct{})
	s, config := server(t, a, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, caller(r))
		if r.Header.Get("Authorization") != "" {
			t.Error("the bootstrap token goes along")
		}
		if r.URL.Path == "/watch" {
			_ = http.NewResponseController(w).Flush()
			<-proceed
			fmt.Fprint(w, " goes on")
		}
	})
	store := openStore("", "client", slog.New(slog.DiscardHandler), func() {})
	transport, err := newTransport(config, store.get)
	if err != nil {
		t.Fatal(err)
	}
	defer transport.close()
	client := &http.Client{Transport: transport}
	get := func(path string) io.ReadCloser {
		t.Helper()
		response, err := client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		return response.Body
	}
	read := func(r io.ReadCloser) string {
		defer r.Close()
		body, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		return string(body)
	}
	renew := func() {
		t.Helper()
		if _, err := store.Update(a.issue("system:node:edge-1", time.Hour)); err != nil {
			t.Fatal(err)
		}
		if err := transport.renew(); err != nil {
			t.Fatal(err)
		}
	}
	callers := []string{read(get("/"))}
	renew()
	watch := get("/watch")
	callers = append(callers, read(get("/")))
	renew()
	callers = append(callers, read(get("/")))
	close(proceed)
	callers = append(callers, read(watch))
	if want := []string{"anonymous", "2", "3", "2 goes on"}; !slices.Equal(callers, want) {
		t.Errorf("the server saw %q, want %q", callers, want)
	}
}

func TestACertificateThatWasKeptIsUsedOnlyIfItIsGood(t *testing.T) {
	for name, tc := range map[string]struct {
		user     string
		validity time.Duration
		answer   int
		good     bool
	}{
		"good":             {"system:node:edge-1", time.Hour, http.StatusCreated, true},
		"of another node":  {"system:node:edge-2", time.Hour, http.StatusCreated, false},
		"expired":          {"system:node:edge-1", -time.Minute, http.StatusCreated, false},
		"not believed":     {"system:node:edge-1", time.Hour, http.StatusUnauthorized, false},
		"asking forbidden": {"system:node:edge-1", time.Hour, http.StatusForbidden, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			_, config := server(t, a, func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasSuffix(r.URL.Path, "/selfsubjectreviews") {
					t.Errorf("%s %s", r.Method, r.URL.Path)
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.answer)
				fmt.Fprint(w, `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
			})
			dir := t.TempDir()
			if _, err := openStore(dir, "client", slog.New(slog.DiscardHandler), func() {}).Update(a.issue(tc.user, tc.validity)); err != nil {
				t.Fatal(err)
			}
			c, err := NewClient(Options{Node: "edge-1", Dir: dir, Clock: clock.RealClock{}}, config)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.probe(t.Context()); err != nil {
				t.Fatal(err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			select {
			case <-c.ready:
				if !tc.good {
					t.Error("it is used")
				}
			default:
				if tc.good {
					t.Error("it is not used")
				}
			}
			if err := c.Await(ended); !tc.good && err == nil {
				t.Error("Await returned before there is a certificate")
			}
			if missing := c.Missing(); (missing == nil) != tc.good {
				t.Errorf("missing: %v", missing)
			}
			if kept := c.store.get() != nil; kept != tc.good {
				t.Errorf("kept: %v", kept)
			}
			c.transport.close()
		})
	}
}

func TestWhoAsksIsTheNodeOnceItHasACertificate(t *testing.T) {
	a := newAuthority(t)
	var asked []string
	_, config := server(t, a, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, caller(r)+" "+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusNotFound)
	})
	c, err := NewClient(Options{Node: "edge-1", Clock: clock.RealClock{}}, config)
	if err != nil {
		t.Fatal(err)
	}
	ask := func() {
		t.Helper()
		client, err := c.clientset(c.store.get())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = client.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "x", metav1.GetOptions{})
	}
	ask()
	if _, err := c.store.Update(a.issue("system:node:edge-1", time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := c.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask()
	if want := []string{"anonymous Bearer bootstrap", "2 "}; !slices.Equal(asked, want) {
		t.Errorf("asked by %q, want %q", asked, want)
	}
}
