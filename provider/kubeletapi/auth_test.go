// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
)

func TestRequestsAreAuthorisedByTheirRoute(t *testing.T) {
	b := newBed(t, nil)
	// Everything is denied, so that all alternatives are asked for.
	b.reviews.allow = func(authorizationv1.ResourceAttributes) bool { return false }
	admin := b.client(t, "admin", nil)
	tests := []struct {
		method, path string
		verb         string
		subresources []string
	}{
		{"GET", "/healthz", "get", []string{"healthz", "proxy"}},
		{"GET", "/healthz/ping", "get", []string{"healthz", "proxy"}},
		{"GET", "/pods", "get", []string{"pods", "proxy"}},
		{"GET", "/pods/", "get", []string{"pods", "proxy"}},
		{"HEAD", "/pods", "get", []string{"pods", "proxy"}},
		{"GET", "/runningpods/", "get", []string{"pods", "proxy"}},
		{"GET", "/containerLogs/ns/web/app", "get", []string{"proxy"}},
		{"GET", "/exec/ns/web/app", "create", []string{"proxy"}},
		{"POST", "/exec/ns/web/app", "create", []string{"proxy"}},
		{"GET", "/exec/ns/web/uid-web/app", "create", []string{"proxy"}},
		{"GET", "/attach/ns/web/app", "create", []string{"proxy"}},
		{"POST", "/attach/ns/web/uid-web/app", "create", []string{"proxy"}},
		{"GET", "/portForward/ns/web", "create", []string{"proxy"}},
		{"POST", "/portForward/ns/web/uid-web", "create", []string{"proxy"}},
		{"GET", "/somewhere/else", "get", []string{"proxy"}},
		{"DELETE", "/pods", "delete", []string{"proxy"}},
		{"PUT", "/exec/ns/web/app", "update", []string{"proxy"}},
		{"PATCH", "/x", "patch", []string{"proxy"}},
		// A path that looks like another one to who decodes it first is judged by the route that would serve it.
		{"GET", "/pods%2F..%2Fexec/ns/web/app", "get", []string{"proxy"}},
		{"GET", "/exec/ns%2Fweb/app/x", "create", []string{"proxy"}},
	}
	for _, test := range tests {
		t.Run(test.method+" "+test.path, func(t *testing.T) {
			b.server.auth.UnconditionalAuthorizer = freshAuthorizer(t, b)
			b.reviews.mu.Lock()
			b.reviews.asked = nil
			b.reviews.mu.Unlock()
			code, body := b.do(t, admin, test.method, test.path, nil)
			if code != http.StatusForbidden {
				t.Errorf("status %d %q, want 403", code, body)
			}
			var want []authorizationv1.ResourceAttributes
			for _, sub := range test.subresources {
				want = append(want, authorizationv1.ResourceAttributes{
					Verb: test.verb, Version: "v1", Resource: "nodes", Subresource: sub, Name: nodeName,
				})
			}
			if diff := cmp.Diff(want, b.reviews.asked); diff != "" {
				t.Errorf("reviews (-want +got):\n%s", diff)
			}
			text := "Forbidden (user=admin, verb=" + test.verb + ", resource=nodes, subresource(s)=[" +
				strings.Join(test.subresources, " ") + "])\n"
			if test.method != http.MethodHead && body != text {
				t.Errorf("body %q, want %q", body, text)
			}
		})
	}
}

// freshAuthorizer has cached nothing.
func freshAuthorizer(t *testing.T, b *bed) auth {
	t.Helper()
	a, err := newAuth(b.reviews.client, nil)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestTheFineGrainedRightIsEnough(t *testing.T) {
	b := newBed(t, nil)
	b.reviews.allow = func(a authorizationv1.ResourceAttributes) bool { return a.Subresource == "pods" }
	if code, body := b.get(t, "/pods"); code != http.StatusOK {
		t.Errorf("/pods: status %d %q, want 200", code, body)
	}
	if code, _ := b.get(t, "/healthz"); code != http.StatusForbidden {
		t.Errorf("/healthz: status %d, want 403", code)
	}
}

func TestTheRightToReadIsNotEnoughToExec(t *testing.T) {
	b := newBed(t, nil)
	b.reviews.allow = func(a authorizationv1.ResourceAttributes) bool { return a.Verb == "get" }
	for _, path := range []string{"/exec/ns/web/app?command=id&output=1", "/attach/ns/web/app?output=1", "/portForward/ns/web"} {
		if code, body := b.get(t, path); code != http.StatusForbidden {
			t.Errorf("%s: status %d %q, want 403", path, code, body)
		}
	}
}

func TestOnlyKnownCallersAreServed(t *testing.T) {
	b := newBed(t, nil)
	tests := []struct {
		desc  string
		token string
		cert  *tls.Certificate
		want  int
	}{
		{"no credentials", "", nil, http.StatusUnauthorized},
		{"unknown token", "nobody", nil, http.StatusUnauthorized},
		{"certificate of another authority", "", strangerCert, http.StatusUnauthorized},
		{"token", "admin", nil, http.StatusOK},
		{"certificate of the cluster", "", adminCert, http.StatusOK},
		{"known but without rights", "guest", nil, http.StatusForbidden},
	}
	for _, test := range tests {
		t.Run(test.desc, func(t *testing.T) {
			client := b.client(t, test.token, test.cert)
			for _, path := range []string{"/healthz", "/pods", "/unknown"} {
				want := test.want
				if want == http.StatusOK && path == "/unknown" {
					want = http.StatusNotFound
				}
				if code, body := b.do(t, client, http.MethodGet, path, nil); code != want {
					t.Errorf("%s: status %d %q, want %d", path, code, body, want)
				}
			}
		})
	}
}

func TestAFailingReviewIsNoPermission(t *testing.T) {
	b := newBed(t, nil)
	b.reviews.broken = true
	code, body := b.get(t, "/pods")
	if code != http.StatusInternalServerError || !strings.HasPrefix(body, "Authorization error (user=admin, verb=get,") {
		t.Errorf("got %d %q, want 500 and an authorisation error", code, body)
	}
}

func TestAMethodTheRouteDoesNotHaveIsRefused(t *testing.T) {
	b := newBed(t, nil)
	client := b.client(t, "admin", nil)
	for _, path := range []string{"/pods", "/containerLogs/ns/web/app", "/exec/ns/web/app"} {
		if code, _ := b.do(t, client, http.MethodDelete, path, nil); code != http.StatusMethodNotAllowed {
			t.Errorf("DELETE %s: status %d, want 405", path, code)
		}
	}
	if code, _ := b.do(t, client, http.MethodOptions, "/pods", nil); code != http.StatusForbidden {
		t.Errorf("OPTIONS: status %d, want 403: it has no verb", code)
	}
}
