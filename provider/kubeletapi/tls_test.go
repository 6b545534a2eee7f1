// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"crypto/x509"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

// issuing is a certificate that comes later.
type issuing struct {
	mu        sync.Mutex
	cert, key []byte
	listeners []dynamiccertificates.Listener
}

func (i *issuing) Name() string { return "issued" }

func (i *issuing) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.cert, i.key
}

func (i *issuing) AddListener(l dynamiccertificates.Listener) { i.listeners = append(i.listeners, l) }

func TestAnIssuedCertificateTakesOverFromTheSelfSignedOne(t *testing.T) {
	issued := &issuing{}
	b := newBed(t, func(_ *bed, o *Options) {
		o.TLS.CertFile, o.TLS.KeyFile, o.TLS.Issued = "", "", issued
	})
	if name := b.servedName(t); name == "issued" {
		t.Fatalf("serving %q before it was issued", name)
	}
	pair := newAuthority("ca").issue("issued")
	issued.mu.Lock()
	issued.cert = pemBlock("CERTIFICATE", pair.Certificate[0])
	issued.key = pemBlock("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(pair.PrivateKey)))
	issued.mu.Unlock()
	for _, listener := range issued.listeners {
		listener.Enqueue()
	}
	for range 1000 {
		if b.servedName(t) == "issued" {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the issued certificate is not served")
}
