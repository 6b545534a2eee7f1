// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func conformancePrograms(t *testing.T) Programs {
	t.Helper()
	p := testPrograms(t)
	p.Bash, p.Userland = filepath.Join(p.Parts, "bash"), filepath.Join(p.Parts, "userland")
	for _, name := range []string{p.Bash, p.Userland} {
		if err := os.WriteFile(name, []byte("program "+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func TestConformanceHasTheStandardImagesToo(t *testing.T) {
	p := conformancePrograms(t)
	all, err := Conformance(p)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, image := range all {
		for _, name := range image.Names {
			if slices.Contains(names, name) {
				t.Errorf("%s is there twice", name)
			}
			names = append(names, name)
		}
	}
	for _, image := range Standard(p) {
		for _, name := range image.Names {
			if !slices.Contains(names, name) {
				t.Errorf("%s is missing", name)
			}
		}
	}
}

func TestConformanceGivesTheSameBytesForTheSameInput(t *testing.T) {
	p := conformancePrograms(t)
	var archives [2]bytes.Buffer
	for i := range archives {
		all, err := Conformance(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(&archives[i], all...); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0].Bytes(), archives[1].Bytes()) {
		t.Error("archives differ")
	}
}

// TestEveryAppletIsInBin: tests of the suite name programs by their paths in the original images.
func TestEveryAppletIsInBin(t *testing.T) {
	p := conformancePrograms(t)
	p.Applets = []string{"bin/cat", "sbin/sysctl", "usr/bin/cat"}
	layer := userland(p)
	for _, want := range []string{"/bin/cat", "/bin/sysctl", "/sbin/sysctl", "/usr/bin/cat"} {
		if !slices.ContainsFunc(layer, func(f File) bool { return f.Path == want && f.Link == "/bin/busybox" }) {
			t.Errorf("%s is missing", want)
		}
	}
	if _, err := layer.complete(); err != nil {
		t.Error(err)
	}
}

func TestShellOfConformanceImagesIsBash(t *testing.T) {
	layer := userland(conformancePrograms(t))
	i := slices.IndexFunc(layer, func(f File) bool { return f.Path == "/bin/sh" })
	if i < 0 || layer[i].Link != "/bin/bash" {
		t.Errorf("/bin/sh is entry %d", i)
	}
	if _, err := layer.complete(); err != nil {
		t.Error(err)
	}
}

func TestLocalhostCertificateServes(t *testing.T) {
	cert, key, err := localhostCertificate()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair([]byte(cert), []byte(key)); err != nil {
		t.Error(err)
	}
}

// registryOf serves the conformance images.
func registryOf(t *testing.T) *httptest.Server {
	t.Helper()
	all, err := Conformance(conformancePrograms(t))
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "archive.tar")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Write(f, all...); err != nil {
		t.Fatal(err)
	}
	registry, err := OpenRegistry(name)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry)
	t.Cleanup(func() {
		server.Close()
		if err := registry.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// answer is what is left of a response whose body has been read.
type answer struct {
	StatusCode int
	Status     string
	Header     http.Header
}

func ask(t *testing.T, method, url string) (answer, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{StatusCode: response.StatusCode, Status: response.Status, Header: response.Header}, string(body)
}

func TestRegistryServesWhatAPullAsksFor(t *testing.T) {
	server := registryOf(t)
	if response, _ := ask(t, http.MethodGet, server.URL+"/v2/"); response.StatusCode != http.StatusOK {
		t.Errorf("the protocol is refused: %s", response.Status)
	}
	const path = "/v2/e2e-test-images/kitten/manifests/"
	head, _ := ask(t, http.MethodHead, server.URL+path+"1.8?ns=registry.k8s.io")
	digest := head.Header.Get("Docker-Content-Digest")
	if head.StatusCode != http.StatusOK || !strings.HasPrefix(digest, "sha256:") || head.Header.Get("Content-Type") != mediaTypeManifest {
		t.Fatalf("resolving a tag: %s, headers %v", head.Status, head.Header)
	}
	byDigest, body := ask(t, http.MethodGet, server.URL+path+digest+"?ns=registry.k8s.io")
	if byDigest.StatusCode != http.StatusOK || !strings.Contains(body, mediaTypeConfig) {
		t.Fatalf("manifest by digest: %s, %s", byDigest.Status, body)
	}
	_, config, _ := strings.Cut(body, `"digest":"`)
	config, _, _ = strings.Cut(config, `"`)
	if blob, body := ask(t, http.MethodGet, server.URL+"/v2/e2e-test-images/kitten/blobs/"+config+"?ns=registry.k8s.io"); blob.StatusCode != http.StatusOK ||
		!strings.Contains(body, "test-webserver") {
		t.Errorf("blob %s: %s, %s", config, blob.Status, body)
	}
}

func TestRegistryHasNothingElse(t *testing.T) {
	server := registryOf(t)
	for _, tc := range []struct {
		method, path string
		want         int
	}{
		{http.MethodGet, "/v2/e2e-test-images/kitten/manifests/9.9?ns=registry.k8s.io", http.StatusNotFound},
		{http.MethodGet, "/v2/e2e-test-images/kitten/manifests/1.8?ns=docker.io", http.StatusNotFound},
		{http.MethodGet, "/v2/e2e-test-images/kitten/blobs/sha256:00", http.StatusNotFound},
		{http.MethodGet, "/v2/e2e-test-images/kitten/tags/list", http.StatusNotFound},
		{http.MethodGet, "/v2/x", http.StatusNotFound},
		{http.MethodGet, "/v1/", http.StatusNotFound},
		{http.MethodPost, "/v2/e2e-test-images/kitten/blobs/uploads/", http.StatusMethodNotAllowed},
	} {
		if response, _ := ask(t, tc.method, server.URL+tc.path); response.StatusCode != tc.want {
			t.Errorf("%s %s: %s, want %d", tc.method, tc.path, response.Status, tc.want)
		}
	}
}

func TestOpenRegistryRefusesWhatIsNoArchive(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.tar")
	if err := os.WriteFile(name, make([]byte, 1024), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRegistry(name); err == nil || !strings.Contains(err.Error(), "index.json") {
		t.Errorf("error %v, want one about index.json", err)
	}
}
