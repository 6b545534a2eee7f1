// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"errors"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/tombolo-dev/tombolo/provider/identity"
)

// The ConfigMap in which every API server publishes the authorities of the client certificates that it accepts.
const (
	authenticationConfig = "extension-apiserver-authentication"
	clientCAKey          = "client-ca-file"
)

// certificates are those that are asked for on behalf of the node. Each may be missing.
type certificates struct {
	client  *identity.Client
	serving *identity.Serving

	// end ends the client's goroutine, which running counts; it began before the other parts of the node.
	end     context.CancelCauseFunc
	running sync.WaitGroup
}

// obtainIdentity makes o.Kubernetes the node's own identity, if it is not yet, and waits until there is one. The caller
// stops what is returned.
func (o *Options) obtainIdentity(ctx context.Context) (*certificates, error) {
	c := &certificates{end: func(error) {}}
	if !o.Bootstrap {
		return c, nil
	}
	client, err := identity.NewClient(o.certificate(), o.Kubernetes)
	if err != nil {
		return nil, err
	}
	own, err := client.Config()
	if err != nil {
		return nil, err
	}
	running, end := context.WithCancelCause(ctx)
	c.client, c.end = client, end
	c.running.Go(func() { end(client.Run(running)) })
	o.Health.waiting(client.Missing)
	if err := client.Await(running); err != nil {
		c.stop()
		return nil, err
	}
	o.Kubernetes = own
	return c, nil
}

// certificate is what the node's certificates have in common.
func (o *Options) certificate() identity.Options {
	return identity.Options{
		Node: o.Name, Dir: o.CertDir, Clock: o.Clock, UserAgent: userAgent(o.Version, "certificates"),
		Logger: o.Logger.With("part", "certificates"), Registerer: o.Registry,
	}
}

// prepare fills in those options of the kubelet API's TLS that come from the cluster.
func (c *certificates) prepare(o *Options, clients *clients) error {
	if o.IssuedServing {
		serving, err := identity.NewServing(o.certificate(), clients.general, o.NodeIP)
		if err != nil {
			return err
		}
		c.serving, o.TLS.Issued = serving, serving
	}
	if o.ClientCAFromCluster {
		ca, err := dynamiccertificates.NewDynamicCAFromConfigMapController("client-ca", metav1.NamespaceSystem, authenticationConfig, clientCAKey, clients.general)
		if err != nil {
			return err
		}
		o.TLS.ClientCA = ca
	}
	return nil
}

// reportTo makes events of the node of what there is to tell.
func (c *certificates) reportTo(event func(kind, reason, message string)) {
	if c.client != nil {
		c.client.ReportTo(event)
	}
	if c.serving != nil {
		c.serving.ReportTo(event)
	}
}

// run keeps the serving certificate until ctx ends.
func (c *certificates) run(ctx context.Context) error {
	if c.serving == nil {
		return nil
	}
	return c.serving.Run(ctx)
}

// stop ends the renewal of the client certificate.
func (c *certificates) stop() {
	c.end(errStopped)
	c.running.Wait()
}

var errStopped = errors.New("the node process stops")
