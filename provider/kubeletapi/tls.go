// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
)

// reloader is a piece of certificate material that follows its file.
type reloader interface {
	Run(ctx context.Context, workers int)
	AddListener(dynamiccertificates.Listener)
}

// tlsState is the server's certificate and the authorities it knows, both kept up to date while run runs.
type tlsState struct {
	config *tls.Config
	// clientCA is nil when there is none.
	clientCA dynamiccertificates.CAContentProvider

	controller *dynamiccertificates.DynamicServingCertificateController
	sources    []reloader
}

func newTLS(o TLSOptions, nodeName string) (*tlsState, error) {
	t := &tlsState{}
	if err := t.load(o, nodeName); err != nil {
		t.release()
		return nil, err
	}
	return t, nil
}

func (t *tlsState) load(o TLSOptions, nodeName string) error {
	if err := t.loadClientCA(o); err != nil {
		return err
	}
	serving, err := t.serving(o, nodeName)
	if err != nil {
		return err
	}
	base := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Asked for, not required: callers with a token have none. Verified by the authenticator.
		ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"h2", "http/1.1"},
	}
	t.controller = dynamiccertificates.NewDynamicServingCertificateController(base, t.clientCA, serving, nil, nil)
	if err := t.controller.RunOnce(); err != nil {
		return fmt.Errorf("loading the serving certificate: %w", err)
	}
	for _, source := range t.sources {
		source.AddListener(t.controller)
	}
	if o.Issued != nil {
		o.Issued.AddListener(t.controller)
	}
	t.config = base.Clone()
	t.config.GetConfigForClient = t.controller.GetConfigForClient
	return nil
}

// loadClientCA finds the authorities of client certificates, if there are any.
func (t *tlsState) loadClientCA(o TLSOptions) error {
	if o.ClientCA != nil {
		t.clientCA = o.ClientCA
		t.sources = append(t.sources, o.ClientCA)
		return nil
	}
	if o.ClientCAFile == "" {
		return nil
	}
	// Checked first because what follows a file leaves a goroutine behind when its first reading fails.
	if _, err := cert.NewPool(o.ClientCAFile); err != nil {
		return fmt.Errorf("reading client-ca-file %q: %w", o.ClientCAFile, err)
	}
	ca, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca-bundle", o.ClientCAFile)
	if err != nil {
		return fmt.Errorf("reading client-ca-file %q: %w", o.ClientCAFile, err)
	}
	t.clientCA = ca
	t.sources = append(t.sources, ca)
	return nil
}

// issuedOrOwn is a certificate that the cluster issues, and until then one that was made here.
type issuedOrOwn struct {
	dynamiccertificates.CertKeyContentProvider
	own dynamiccertificates.CertKeyContentProvider
}

// CurrentCertKeyContent returns the certificate and its key in PEM.
func (c issuedOrOwn) CurrentCertKeyContent() (certPEM, keyPEM []byte) {
	if certPEM, keyPEM = c.CertKeyContentProvider.CurrentCertKeyContent(); len(certPEM) > 0 && len(keyPEM) > 0 {
		return certPEM, keyPEM
	}
	return c.own.CurrentCertKeyContent()
}

// serving returns the certificate from its files, or the issued one, or a new self-signed one.
func (t *tlsState) serving(o TLSOptions, nodeName string) (dynamiccertificates.CertKeyContentProvider, error) {
	if o.CertFile != "" {
		if _, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile); err != nil {
			return nil, fmt.Errorf("reading tls-cert-file %q and tls-private-key-file %q: %w", o.CertFile, o.KeyFile, err)
		}
		files, err := dynamiccertificates.NewDynamicServingContentFromFiles("kubelet-serving", o.CertFile, o.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading tls-cert-file %q and tls-private-key-file %q: %w", o.CertFile, o.KeyFile, err)
		}
		t.sources = append(t.sources, files)
		return files, nil
	}
	var ips []net.IP
	var names []string
	for _, address := range o.Addresses {
		if ip := net.ParseIP(address); ip != nil {
			ips = append(ips, ip)
		} else if address != "" && address != nodeName {
			names = append(names, address)
		}
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(nodeName, ips, names)
	if err != nil {
		return nil, fmt.Errorf("making a self-signed serving certificate: %w", err)
	}
	own, err := dynamiccertificates.NewStaticCertKeyContent("self-signed", certPEM, keyPEM)
	if err != nil || o.Issued == nil {
		return own, err
	}
	return issuedOrOwn{CertKeyContentProvider: o.Issued, own: own}, nil
}

// release frees what was acquired, if run is never called.
func (t *tlsState) release() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	t.run(ctx)
}

// run follows the files until ctx ends.
func (t *tlsState) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, source := range t.sources {
		wg.Go(func() { source.Run(ctx, 1) })
	}
	if t.controller != nil {
		t.controller.Run(1, ctx.Done())
	}
}
