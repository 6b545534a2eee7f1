// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// podSigner answers the PodCertificateRequests of a test's namespace: it issues certificates, or denies them if it has no key.
type podSigner struct {
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newPodSigner(t *testing.T, name string) *podSigner {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(9 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &podSigner{name: name, cert: cert, key: key}
}

// serve answers requests until the test ends.
func (s *podSigner) serve(k *tester) {
	ctx, cancel := context.WithCancel(k.Context())
	var wg sync.WaitGroup
	k.Cleanup(func() { cancel(); wg.Wait() })
	api := k.client().CertificatesV1().PodCertificateRequests(k.namespace)
	wg.Go(func() {
		for ctx.Err() == nil {
			list, err := api.List(ctx, metav1.ListOptions{})
			for i := 0; err == nil && i < len(list.Items); i++ {
				if r := &list.Items[i]; r.Spec.SignerName == s.name && len(r.Status.Conditions) == 0 {
					if err := s.answer(r); err != nil {
						k.Error(err)
						return
					}
					_, err = api.UpdateStatus(ctx, r, metav1.UpdateOptions{})
				}
			}
			if err != nil && ctx.Err() == nil {
				k.Error(err)
				return
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
}

func (s *podSigner) answer(r *certificatesv1.PodCertificateRequest) error {
	condition := metav1.Condition{Type: certificatesv1.PodCertificateRequestConditionTypeDenied, Status: metav1.ConditionTrue, Reason: "NotToday", Message: "come back"}
	condition.LastTransitionTime = metav1.Now()
	if s.key == nil {
		r.Status.Conditions = []metav1.Condition{condition}
		return nil
	}
	csr, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil {
		return err
	}
	now := time.Now().Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: string(r.Spec.PodUID)}, NotBefore: now, NotAfter: now.Add(2 * time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, s.cert, csr.PublicKey, s.key)
	if err != nil {
		return err
	}
	condition.Type, condition.Reason = certificatesv1.PodCertificateRequestConditionTypeIssued, "Signed"
	r.Status = certificatesv1.PodCertificateRequestStatus{
		Conditions: []metav1.Condition{condition}, CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		NotBefore: ptr.To(metav1.NewTime(now)), BeginRefreshAt: ptr.To(metav1.NewTime(now.Add(time.Hour))), NotAfter: ptr.To(metav1.NewTime(now.Add(2 * time.Hour))),
	}
	return nil
}

// TestPodsGetCertificatesOfTheirOwn from a signer of the cluster, and are told why if it refuses.
func TestPodsGetCertificatesOfTheirOwn(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	signer := newPodSigner(t, "example.com/issues-"+k.namespace)
	signer.serve(k)
	denies := &podSigner{name: "example.com/denies-" + k.namespace}
	denies.serve(k)
	projected := func(p v1.PodCertificateProjection) v1.VolumeSource {
		return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{PodCertificate: &p}}}}
	}
	pod := k.awaitPodReady(k.create(k.pod("certified", `cat /bundle/both > /marks/both; cat /two/key > /marks/key; cat /two/chain > /marks/chain; stat -c %a:%u /bundle/..data/both > /marks/mode; exec sleep 1d`,
		volumes(map[string]v1.VolumeSource{
			"bundle": projected(v1.PodCertificateProjection{SignerName: signer.name, KeyType: "ECDSAP256", CredentialBundlePath: "both"}),
			"two":    projected(v1.PodCertificateProjection{SignerName: signer.name, KeyType: "ED25519", KeyPath: "key", CertificateChainPath: "chain"}),
		}), func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To[int64](0)} })))
	k.saw("mode", "600:0", usual)
	roots := x509.NewCertPool()
	roots.AddCert(signer.cert)
	for key, chain := range map[string]string{"both": "both", "key": "chain"} {
		var pems [2][]byte
		for i, name := range []string{key, chain} {
			var err error
			pems[i], err = os.ReadFile(k.mark(name))
			must(t, err)
		}
		pair, err := tls.X509KeyPair(pems[1], pems[0])
		if err != nil {
			t.Errorf("%s and %s: %v", key, chain, err)
			continue
		}
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil || pair.Leaf.Subject.CommonName != string(pod.UID) {
			t.Errorf("a certificate of %q: %v", pair.Leaf.Subject.CommonName, err)
		}
	}
	refused := k.create(k.pod("refused", `exec sleep 1d`, volumes(map[string]v1.VolumeSource{
		"bundle": projected(v1.PodCertificateProjection{SignerName: denies.name, KeyType: "ED25519", CredentialBundlePath: "both"}),
	})))
	k.awaitEvent(refused, "FailedMount", `was permanently denied: reason="NotToday" message="come back"`)
	k.awaitEvent(refused, "Denied", `was permanently denied: reason="NotToday" message="come back"`)
}
