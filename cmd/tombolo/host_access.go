// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"golang.org/x/net/http/httpproxy"
	"google.golang.org/grpc/credentials"

	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/reverse"
)

// access is how nodes get to this host.
type access struct {
	// credentials secure the connections or tell how that was done, nil where who started the process is at the other end.
	credentials credentials.TransportCredentials
	// listen begins to yield connections.
	listen func(context.Context) (net.Listener, error)
	// keep is to run meanwhile, if it is not nil.
	keep func(context.Context)
}

// access finds out how nodes get here, and reads what they and we are known by.
func (o *hostOptions) access(p *process, logger *slog.Logger, registry *prometheus.Registry) (*access, error) {
	if o.stdio {
		return &access{}, nil
	}
	certificates, err := link.LoadCertificates(o.files, logger)
	if err != nil {
		return nil, err
	}
	if err := certificates.CheckUsage(x509.ExtKeyUsageServerAuth); err != nil {
		return nil, fmt.Errorf("--tls-cert-file: %w", err)
	}
	if joined := o.files.CertFile == joinedFiles(o.rootDir, nil).Pair(); len(o.nodes) == 0 && !joined {
		logger.Warn("any node of this authority may lead this host: --node-name", "client_ca_file", o.files.CAFile)
	}
	if o.connect.address != "" {
		return o.connect.access(p, o, certificates, logger, registry)
	}
	return &access{
		credentials: certificates.ServerCredentials(link.ServerOptions{Nodes: o.nodes, Logger: logger, Registerer: registry}),
		listen: func(ctx context.Context) (net.Listener, error) {
			listener, err := link.Listen(ctx, o.listen)
			if err != nil {
				return nil, fmt.Errorf("listening on --listen %s: %w", o.listen, err)
			}
			return listener, nil
		},
	}, nil
}

// connectOptions are the flags for a host that connects to its node.
type connectOptions struct {
	address string
	proxy   string
}

func (o *connectOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.address, "connect", "", "host:port of the node to connect to, instead of serving on --listen; the node is a tombolo node --host reverse://NAME")
	fs.StringVar(&o.proxy, "proxy", "", "HTTP proxy through which to connect, http://[user:password@]host:port; by default the one in HTTPS_PROXY, unless NO_PROXY excludes the node (--connect)")
}

// check finds what is wrong with the flags.
func (o *connectOptions) check(host *hostOptions) (problems []error) {
	if o.address == "" {
		if o.proxy != "" {
			problems = append(problems, errors.New("--proxy is for a host that connects to its node, and --connect is empty: leave it out, or give --connect"))
		}
		return problems
	}
	if err := link.CheckConnect(o.address); err != nil {
		problems = append(problems, fmt.Errorf("--connect %w", err))
	}
	if host.files.CAFile == "" && host.files.CertFile == "" && host.files.KeyFile == "" {
		problems = append(problems, host.useJoined()...)
	}
	if host.listen != defaultHostListen {
		problems = append(problems, errors.New("--listen is for a host that nodes connect to, and --connect is given: leave one of them out"))
	}
	if o.proxy != "" {
		if _, err := reverse.ParseProxy(o.proxy); err != nil {
			problems = append(problems, fmt.Errorf("--proxy: %w", err))
		}
	}
	return problems
}

// useJoined takes the files that tombolo host join wrote.
func (o *hostOptions) useJoined() []error {
	joined := joinedFiles(o.rootDir, nil)
	if _, err := joined.Leaf(); errdefs.IsNotFound(err) {
		return []error{fmt.Errorf("--connect needs a certificate, and %w: run tombolo host join first", err)}
	}
	if len(o.nodes) > 0 {
		return []error{errors.New("--node-name is for an authority that several nodes share, and this host has joined a node, which has its own: leave it out")}
	}
	o.files.CAFile, o.files.CertFile, o.files.KeyFile = joined.Authority(), joined.Pair(), joined.Pair()
	return nil
}

// access makes connections to the node.
func (o *connectOptions) access(p *process, host *hostOptions, certificates *link.Certificates, logger *slog.Logger, registry *prometheus.Registry) (*access, error) {
	proxy, err := o.proxyURL(p.lookupEnv)
	if err != nil {
		return nil, err
	}
	if proxy != nil {
		logger.Info("connecting through a proxy", "proxy", proxy.Host)
	}
	connector, err := link.NewConnector(link.ConnectorOptions{
		Address: o.address, Certificates: certificates, Nodes: host.nodes, Proxy: proxy, Clock: p.clock, Logger: logger, Registerer: registry,
	})
	if err != nil {
		return nil, err
	}
	nodes := &access{credentials: connector.Credentials(), listen: func(context.Context) (net.Listener, error) { return connector, nil }}
	if files := joinedFiles(host.rootDir, p.clock); host.files.CertFile == files.Pair() {
		nodes.keep = o.keeper(files, certificates, proxy, logger).Run
	}
	return nodes, nil
}

// proxyURL is where the proxy is, nil if there is none on the way to the node.
func (o *connectOptions) proxyURL(lookupEnv func(string) (string, bool)) (*url.URL, error) {
	if o.proxy != "" {
		return reverse.ParseProxy(o.proxy)
	}
	either := func(names ...string) string {
		for _, name := range names {
			if value, ok := lookupEnv(name); ok && value != "" {
				return value
			}
		}
		return ""
	}
	environment := &httpproxy.Config{HTTPSProxy: either("HTTPS_PROXY", "https_proxy"), NoProxy: either("NO_PROXY", "no_proxy")}
	found, err := environment.ProxyFunc()(&url.URL{Scheme: "https", Host: o.address})
	if err != nil || found == nil {
		if err != nil {
			err = errors.New("HTTPS_PROXY: not a URL; give http://host:port")
		}
		return nil, err
	}
	proxy, err := reverse.ParseProxy(found.String())
	if err != nil {
		return nil, fmt.Errorf("HTTPS_PROXY: %w", err)
	}
	return proxy, nil
}
