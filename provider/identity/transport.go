// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

const (
	// dialTimeout, keepAlive, handshakeTimeout and idlePerHost are those of the kubelet's own transport.
	dialTimeout      = 30 * time.Second
	keepAlive        = 30 * time.Second
	handshakeTimeout = 10 * time.Second
	idlePerHost      = 25
	// idleTimeout ends connections that were made with a certificate that has been renewed since.
	idleTimeout = 90 * time.Second
)

// transport sends requests with the newest certificate. A connection belongs to the certificate it was made with, so new
// requests get new connections when there is a new one; watches that are open go on until they end by themselves.
type transport struct {
	config  *rest.Config
	pair    func() *tls.Certificate
	current atomic.Pointer[http.Transport]
}

// newTransport reaches the API server of config, but with pair in place of the credentials in there.
func newTransport(config *rest.Config, pair func() *tls.Certificate) (*transport, error) {
	t := &transport{config: rest.AnonymousClientConfig(config), pair: pair}
	return t, t.renew()
}

// RoundTrip sends one request.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.current.Load().RoundTrip(r)
}

// renew makes new requests go over new connections. The API server's authority is read again if it is a file.
func (t *transport) renew() error {
	secure, err := rest.TLSConfigFor(t.config)
	if err != nil {
		return fmt.Errorf("reading the authority of the API server: %w", err)
	}
	if secure == nil {
		secure = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if pair := t.pair(); pair != nil {
			return pair, nil
		}
		return &tls.Certificate{}, nil
	}
	proxy := http.ProxyFromEnvironment
	if t.config.Proxy != nil {
		proxy = t.config.Proxy
	}
	dial := (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext
	if t.config.Dial != nil {
		dial = t.config.Dial
	}
	next := utilnet.SetTransportDefaults(&http.Transport{
		Proxy: proxy, DialContext: dial, TLSClientConfig: secure, TLSHandshakeTimeout: handshakeTimeout,
		MaxIdleConnsPerHost: idlePerHost, IdleConnTimeout: idleTimeout,
	})
	if old := t.current.Swap(next); old != nil {
		old.CloseIdleConnections()
	}
	return nil
}

// close ends connections that nobody uses.
func (t *transport) close() { t.current.Load().CloseIdleConnections() }

// restConfig is for clients that go through the transport.
func (t *transport) restConfig() (*rest.Config, error) {
	server, _, err := rest.DefaultServerUrlFor(t.config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the API server: %w", err)
	}
	return &rest.Config{Host: server.String(), Transport: t}, nil
}
