// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

// signer answers the requests for certificates of the fake API.
type signer struct {
	t       *testing.T
	a       *api
	objects *Objects

	mu    sync.Mutex
	n     int
	asked []*certificatesv1.PodCertificateRequest
}

// newSigner gives names to requests as the API does, and the objects that they name.
func newSigner(t *testing.T, a *api, o *Objects) *signer {
	t.Helper()
	s := &signer{t: t, a: a, objects: o}
	a.client.PrependReactor("create", "podcertificaterequests", func(action clientgotesting.Action) (bool, runtime.Object, error) {
		request := action.(clientgotesting.CreateActionImpl).Object.(*certificatesv1.PodCertificateRequest)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.n++
		request.Name = fmt.Sprintf("%s%d", request.GenerateName, s.n)
		s.asked = append(s.asked, request.DeepCopy())
		return false, nil, nil
	})
	return s
}

// requests returns how many there were, once nothing more comes by itself.
func (s *signer) requests() int {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

// answer sets the condition of the newest request, and what belongs to it.
func (s *signer) answer(condition, reason string, begin, life time.Duration) {
	s.t.Helper()
	n := s.requests()
	now := time.Now()
	answer := s.asked[n-1].DeepCopy()
	answer.Status.Conditions = []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: "because"}}
	if condition == certificatesv1.PodCertificateRequestConditionTypeIssued {
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Headers: map[string]string{"a": "b"}, Bytes: fmt.Appendf(nil, "chain %d", n)})
		answer.Status.CertificateChain = "of signer\n" + string(block)
		answer.Status.NotBefore = ptr.To(metav1.NewTime(now))
		answer.Status.BeginRefreshAt = ptr.To(metav1.NewTime(now.Add(begin)))
		answer.Status.NotAfter = ptr.To(metav1.NewTime(now.Add(life)))
	}
	if _, err := s.a.client.CertificatesV1().PodCertificateRequests("ns").UpdateStatus(s.t.Context(), answer, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
}

const issued = certificatesv1.PodCertificateRequestConditionTypeIssued

// certified runs body with a signer and with what tells the certificate of the pod, or the error.
func certified(t *testing.T, body func(t *testing.T, a *api, s *signer, get func() string)) {
	t.Helper()
	objects := []runtime.Object{
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "sa", UID: "sa-uid"}},
		&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", UID: "node-uid"}},
	}
	inBubble(t, objects, func(t *testing.T, a *api, o *Objects) {
		o.keys.jitter = func(time.Duration) time.Duration { return time.Minute }
		s := newSigner(t, a, o)
		want := &v1.PodCertificateProjection{
			SignerName: "x/y", KeyType: "ED25519", MaxExpirationSeconds: ptr.To[int32](7200), UserAnnotations: map[string]string{"x/a": "b"},
		}
		body(t, a, s, func() string {
			key, chain, err := o.PodCertificate(t.Context(), podOf("a"), "v", 1, want)
			if err != nil {
				return "error: " + err.Error()
			}
			if !strings.HasPrefix(string(key), "-----BEGIN PRIVATE KEY-----") {
				t.Errorf("the key is %q", key)
			}
			block, rest := pem.Decode(chain)
			if block == nil || len(rest) > 0 || len(block.Headers) > 0 {
				t.Fatalf("the chain is %q", chain)
			}
			return string(block.Bytes)
		})
	})
}

func TestPodCertificateIsAskedForOnceAndAgainBeforeItExpires(t *testing.T) {
	certified(t, func(t *testing.T, a *api, s *signer, get func() string) {
		if n := a.watched("podcertificaterequests"); n != 0 {
			t.Errorf("%d watches before the first read", n)
		}
		begin := time.Now()
		for range 2 {
			if got := get(); got != "error: credential bundle is not issued yet" {
				t.Errorf("got %q", got)
			}
		}
		if took, n := time.Since(begin), s.requests(); took != 2*firstAnswer || n != 1 {
			t.Errorf("%d requests in %v", n, took)
		}
		s.answer(issued, "", time.Hour, 2*time.Hour)
		if told, got := a.news(), get(); told != "a" || got != "chain 1" {
			t.Errorf("told %q, got %q", told, got)
		}
		time.Sleep(time.Hour)
		if n := s.requests(); n != 1 {
			t.Errorf("%d requests before the jitter is over", n)
		}
		time.Sleep(time.Minute)
		if n, got := s.requests(), get(); n != 2 || got != "chain 1" {
			t.Errorf("%d requests, got %q; want the old certificate while the signer works", n, got)
		}
		a.news()
		s.answer(issued, "", time.Hour, 2*time.Hour)
		if told, got := a.news(), get(); told != "a" || got != "chain 2" {
			t.Errorf("told %q, got %q", told, got)
		}
		s.objects.Forget("a")
		time.Sleep(3 * time.Hour)
		if n := s.requests(); n != 2 {
			t.Errorf("%d requests for a pod that is gone", n-2)
		}
	})
}

func TestPodCertificateRequestSaysWhoseItIs(t *testing.T) {
	certified(t, func(t *testing.T, _ *api, s *signer, get func() string) {
		get()
		asked := s.asked[0]
		csr, err := x509.ParseCertificateRequest(asked.Spec.StubPKCS10Request)
		if err != nil || csr.CheckSignature() != nil {
			t.Errorf("the request: %v", err)
		}
		asked.Spec.StubPKCS10Request = nil
		want := &certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "req-1", GenerateName: "req-", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "pod-a", UID: "a"}},
			},
			Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: "x/y", PodName: "pod-a", PodUID: "a", ServiceAccountName: "sa", ServiceAccountUID: "sa-uid", NodeName: "node", NodeUID: "node-uid",
				MaxExpirationSeconds: ptr.To[int32](7200), UnverifiedUserAnnotations: map[string]string{"x/a": "b"},
			},
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("the request (-want +got):\n%s", diff)
		}
	})
}

func TestPodCertificateThatIsRefusedIsNotAskedForAgain(t *testing.T) {
	for condition, want := range map[string]string{
		"Denied": `PodCertificateRequest ns/req-1 was permanently denied: reason="Why" message="because"`,
		"Failed": `PodCertificateRequest ns/req-1 was permanently failed: reason="Why" message="because"`,
	} {
		certified(t, func(t *testing.T, a *api, s *signer, get func() string) {
			get()
			s.answer(condition, "Why", 0, 0)
			if told := a.news(); told != "a" {
				t.Errorf("told %q", told)
			}
			for range 2 {
				if got := get(); !strings.HasPrefix(got, "error: "+want) {
					t.Errorf("got %q, want %q", got, want)
				}
				time.Sleep(time.Hour)
			}
			if n := s.requests(); n != 1 {
				t.Errorf("%d requests", n)
			}
			if got := strings.Join(a.warned(), "\n"); !strings.HasPrefix(got, "pod-a "+condition+" "+want) || strings.Contains(got, "\n") {
				t.Errorf("events %q", got)
			}
		})
	}
}

func TestPodCertificateRequestThatIsDeletedIsMadeAgain(t *testing.T) {
	certified(t, func(t *testing.T, a *api, s *signer, get func() string) {
		get()
		api := a.client.CertificatesV1().PodCertificateRequests("ns")
		if err := api.Delete(t.Context(), "req-1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(firstTokenRetry)
		if n := s.requests(); n != 2 {
			t.Errorf("%d requests", n)
		}
		s.answer(issued, "", time.Hour, 2*time.Hour)
		if got := get(); got != "chain 2" {
			t.Errorf("got %q", got)
		}
		if err := api.Delete(t.Context(), "req-2", metav1.DeleteOptions{}); err != nil { // the API cleans up
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if n := s.requests(); n != 2 {
			t.Errorf("%d requests; that of a certificate that was issued is not made again", n)
		}
	})
}

func TestPodCertificateIsAskedForAgainAfterFailures(t *testing.T) {
	certified(t, func(t *testing.T, a *api, s *signer, get func() string) {
		var mu sync.Mutex
		failing, tries := true, 0
		a.client.PrependReactor("get", "nodes", func(clientgotesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			tries++
			if failing {
				return true, nil, errors.New("the API is away")
			}
			return false, nil, nil
		})
		if got := get(); got != "error: while getting node: the API is away" {
			t.Errorf("got %q", got)
		}
		time.Sleep(10 * time.Minute)
		mu.Lock()
		if tries < 15 || tries > 40 { // each 30 s in the end
			t.Errorf("%d tries in ten minutes", tries)
		}
		failing = false
		mu.Unlock()
		time.Sleep(maxTokenRetry)
		if n := s.requests(); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

func TestPodCertificateOfASignerWhoseClockIsFarBehindIsNotAskedForAllTheTime(t *testing.T) {
	certified(t, func(t *testing.T, _ *api, s *signer, get func() string) {
		get()
		for n := range 3 {
			s.answer(issued, "", -2*time.Hour, -time.Hour)
			if got := s.requests(); got != n+1 {
				t.Fatalf("%d requests at once, want %d", got, n+1)
			}
			time.Sleep(minCertificateAge)
			if got := s.requests(); got != n+2 {
				t.Fatalf("%d requests after %v, want %d", got, minCertificateAge, n+2)
			}
		}
	})
}

func TestPodCertificateThatIsLateIsTold(t *testing.T) {
	certified(t, func(t *testing.T, a *api, s *signer, get func() string) {
		get()
		s.answer(issued, "", time.Hour, 2*time.Hour)
		time.Sleep(71 * time.Minute)
		if got := a.warned(); len(got) > 0 {
			t.Errorf("events %q too early", got)
		}
		time.Sleep(time.Minute)
		time.Sleep(2 * time.Hour)
		want := "pod-a CertificateOverdueForRefresh PodCertificate refresh overdue\npod-a CertificateExpired PodCertificate expired"
		if got := strings.Join(a.warned(), "\n"); got != want {
			t.Errorf("events\n%s\nwant\n%s", got, want)
		}
		if got := get(); got != "chain 1" {
			t.Errorf("got %q", got)
		}
	})
}

func TestKeysAreOfTheTypesOfTheAPI(t *testing.T) {
	for kind, want := range map[string]string{
		"RSA3072": "rsa 3072", "RSA4096": "rsa 4096", "ECDSAP256": "P-256", "ECDSAP384": "P-384", "ECDSAP521": "P-521", "ED25519": "ed25519",
	} {
		private, request, err := newKey(kind)
		if err != nil {
			t.Fatal(err)
		}
		block, _ := pem.Decode(private)
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		var got string
		switch key := key.(type) {
		case *rsa.PrivateKey:
			got = fmt.Sprintf("rsa %d", key.N.BitLen())
		case *ecdsa.PrivateKey:
			got = key.Curve.Params().Name
		case ed25519.PrivateKey:
			got = "ed25519"
		}
		csr, err := x509.ParseCertificateRequest(request)
		if got != want || err != nil || csr.CheckSignature() != nil || csr.Subject.String() != "" {
			t.Errorf("%s: a key of type %s, request %v", kind, got, err)
		}
	}
	if _, _, err := newKey("DSA"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("got %v", err)
	}
	if got := certificatesOnly("no PEM"); !bytes.Equal(got, nil) {
		t.Errorf("got %q", got)
	}
}
