// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/certificate"
	"k8s.io/utils/clock"
)

// userPrefix begins the user name of every node.
const userPrefix = "system:node:"

const (
	// probePause is the pause between attempts to find out whether a certificate that was kept is still believed.
	probePause = time.Second
	// requestTimeout bounds each request but watches.
	requestTimeout = 10 * time.Second
)

// Options are what both kinds of certificate need. All fields but Dir, Logger and Registerer are required.
type Options struct {
	// Node is the node's name.
	Node string
	// Dir is where certificates and keys are kept over restarts; "" is nowhere.
	Dir   string
	Clock clock.WithTicker
	// UserAgent is how requests call themselves.
	UserAgent string
	// Logger and Registerer may be nil.
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

func (o *Options) complete() error {
	if o.Node == "" || o.Clock == nil {
		return errors.New("options of a certificate: Node and Clock are required")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// subject is what every certificate of the node is for.
func (o *Options) subject() pkix.Name {
	return pkix.Name{CommonName: userPrefix + o.Node, Organization: []string{user.NodesGroup}}
}

// Client is the identity of a node towards the API.
type Client struct {
	o         Options
	bootstrap *rest.Config
	store     *store
	requests  *requests
	transport *transport
	metrics   *metrics

	once  sync.Once
	ready chan struct{} // closed when there is a certificate that may be used
}

// NewClient makes the identity of a node that asks for its certificate by bootstrap. It does nothing before Run.
func NewClient(o Options, bootstrap *rest.Config) (*Client, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	c := &Client{o: o, bootstrap: rest.CopyConfig(bootstrap), ready: make(chan struct{}), metrics: newClientMetrics()}
	c.bootstrap.UserAgent, c.bootstrap.Timeout = o.UserAgent, 0
	c.requests = newRequests("tombolo-"+o.Node+"-client-", "client certificate", o.Clock, o.Logger)
	c.store = openStore(o.Dir, "client", o.Logger, c.renewed)
	var err error
	if c.transport, err = newTransport(bootstrap, c.store.get); err != nil {
		return nil, err
	}
	c.metrics.register(o.Registerer, o.Clock, c.store.get)
	return c, nil
}

// Config returns how the API is reached as the node. Requests fail before Await has returned.
func (c *Client) Config() (*rest.Config, error) { return c.transport.restConfig() }

// Await waits until there is a certificate. The error is that ctx ended.
func (c *Client) Await(ctx context.Context) error {
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Missing says why there is no certificate and what to do about it, nil if there is one.
func (c *Client) Missing() error {
	select {
	case <-c.ready:
		return nil
	default:
		return c.requests.why()
	}
}

// ReportTo makes report hear of renewals that wait or were refused, in the words of an event of the node.
func (c *Client) ReportTo(report func(kind, reason, message string)) { c.requests.reportTo(report) }

// Run asks for certificates and renews them until ctx ends. An error says that the options cannot work.
func (c *Client) Run(ctx context.Context) error {
	defer c.transport.close()
	if err := c.probe(ctx); err != nil {
		return nil // ctx has ended
	}
	manager, err := certificate.NewManager(&certificate.Config{
		ClientsetFn:             c.clientset,
		Template:                &x509.CertificateRequest{Subject: c.o.subject()},
		SignerName:              certificatesv1.KubeAPIServerClientKubeletSignerName,
		GetUsages:               certificate.DefaultKubeletClientGetUsages,
		GenerateKey:             c.requests.signer,
		CertificateStore:        c.store,
		CertificateRotation:     c.metrics.age,
		CertificateRenewFailure: c.metrics.failures,
		Ctx:                     &ctx,
	})
	if err != nil {
		return fmt.Errorf("preparing to ask for a client certificate: %w", err)
	}
	manager.Start()
	defer manager.Stop()
	c.requests.follow(ctx)
	return nil
}

// renewed follows a new certificate.
func (c *Client) renewed() {
	c.requests.answered()
	if err := c.transport.renew(); err != nil {
		c.o.Logger.Error("The connections to the API server could not be renewed", "error", err)
	}
	pair := c.store.get()
	c.o.Logger.Info("The node has a new client certificate", "user", pair.Leaf.Subject.CommonName, "valid_until", pair.Leaf.NotAfter)
	c.once.Do(func() { close(c.ready) })
}

// own says whether a certificate is this node's and valid now.
func (c *Client) own(pair *tls.Certificate) bool {
	return pair != nil && pair.Leaf != nil && pair.Leaf.Subject.CommonName == userPrefix+c.o.Node && c.o.Clock.Now().Before(pair.Leaf.NotAfter)
}

// clientset is who asks: the node if it has a valid certificate, else the bootstrap identity.
func (c *Client) clientset(current *tls.Certificate) (kubernetes.Interface, error) {
	config := c.bootstrap
	if c.own(current) {
		own, err := c.transport.restConfig()
		if err != nil {
			return nil, err
		}
		own.UserAgent = c.o.UserAgent
		config = own
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the Kubernetes API: %w", err)
	}
	return c.requests.through(client), nil
}

// probe finds out whether a certificate that was kept is good for anything: it may be another node's, have expired, or come
// from a cluster that is no more. It waits for the API server. The error is that ctx ended.
func (c *Client) probe(ctx context.Context) error {
	pair := c.store.get()
	if pair == nil {
		return ctx.Err()
	}
	if !c.own(pair) {
		c.store.forget()
		c.o.Logger.Info("Asking for a new client certificate: the one that is kept is another node's or has expired",
			"user", pair.Leaf.Subject.CommonName, "valid_until", pair.Leaf.NotAfter)
		return ctx.Err()
	}
	for {
		err := c.whoAmI(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsUnauthorized(err):
			c.store.forget()
			c.o.Logger.Warn("Asking for a new client certificate: the API server does not believe the one that is kept", "error", err)
			return nil
		case err == nil || apierrors.IsForbidden(err):
			c.requests.answered()
			c.once.Do(func() { close(c.ready) })
			return nil
		}
		_ = c.requests.failed(fmt.Errorf("waiting for the API server: %w", err))
		timer := c.o.Clock.NewTimer(probePause)
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
		timer.Stop()
	}
}

// whoAmI asks the API server something that everybody may ask it.
func (c *Client) whoAmI(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	client, err := c.clientset(c.store.get())
	if err != nil {
		return err
	}
	_, err = client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	return err
}
