// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"sync"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate"
)

// Serving is the certificate of the kubelet API, signed by the cluster after somebody has approved it.
type Serving struct {
	o        Options
	client   kubernetes.Interface
	address  netip.Addr
	store    *store
	requests *requests
	metrics  *metrics

	mu        sync.Mutex
	listeners []dynamiccertificates.Listener
}

var _ dynamiccertificates.CertKeyContentProvider = (*Serving)(nil)

// NewServing makes a serving certificate for the node's name and address, which client asks for. It does nothing before
// Run.
func NewServing(o Options, client kubernetes.Interface, address netip.Addr) (*Serving, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &Serving{o: o, client: client, address: address, metrics: newServingMetrics()}
	s.requests = newRequests("tombolo-"+o.Node+"-serving-", "serving certificate for the kubelet API", o.Clock, o.Logger)
	s.store = openStore(o.Dir, "serving", o.Logger, s.renewed)
	if pair := s.store.get(); pair != nil && o.Clock.Now().After(pair.Leaf.NotAfter) {
		s.store.forget()
	}
	s.metrics.register(o.Registerer, o.Clock, s.store.get)
	return s, nil
}

// ReportTo makes report hear of requests that wait or were refused, in the words of an event of the node.
func (s *Serving) ReportTo(report func(kind, reason, message string)) { s.requests.reportTo(report) }

// Run asks for certificates and renews them until ctx ends. An error says that the options cannot work.
func (s *Serving) Run(ctx context.Context) error {
	manager, err := certificate.NewManager(&certificate.Config{
		ClientsetFn: func(*tls.Certificate) (kubernetes.Interface, error) { return s.requests.through(s.client), nil },
		Template: &x509.CertificateRequest{
			Subject: s.o.subject(), DNSNames: []string{s.o.Node}, IPAddresses: []net.IP{s.address.AsSlice()},
		},
		SignerName:              certificatesv1.KubeletServingSignerName,
		GetUsages:               certificate.DefaultKubeletServingGetUsages,
		GenerateKey:             s.requests.signer,
		CertificateStore:        s.store,
		CertificateRotation:     s.metrics.age,
		CertificateRenewFailure: s.metrics.failures,
		Ctx:                     &ctx,
	})
	if err != nil {
		return fmt.Errorf("preparing to ask for a serving certificate: %w", err)
	}
	manager.Start()
	defer manager.Stop()
	s.requests.follow(ctx)
	return nil
}

// Name tells it from other certificates in logs.
func (s *Serving) Name() string { return "kubelet-serving" }

// AddListener makes a listener hear of new certificates.
func (s *Serving) AddListener(listener dynamiccertificates.Listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listeners = append(s.listeners, listener)
}

// CurrentCertKeyContent returns the certificate and its key in PEM, nothing while there is none.
func (s *Serving) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	pair := s.store.get()
	if pair == nil {
		return nil, nil
	}
	certPEM, keyPEM, err := encode(pair)
	if err != nil {
		s.o.Logger.Error("The serving certificate cannot be used", "error", err)
		return nil, nil
	}
	return certPEM, keyPEM
}

// renewed follows a new certificate.
func (s *Serving) renewed() {
	s.requests.answered()
	s.o.Logger.Info("The kubelet API has a new serving certificate", "valid_until", s.store.get().Leaf.NotAfter)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, listener := range s.listeners {
		listener.Enqueue()
	}
}
