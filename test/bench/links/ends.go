// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/pki"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// certificates makes the files of both ends.
func certificates(dir string) (host, node link.Files, err error) {
	store := pki.NewStore(dir, false)
	day := pki.Lifetime{From: time.Now().Add(-time.Hour), Validity: 24 * time.Hour}
	_, initErr := store.Init("bench", pki.Lifetime{From: day.From, Validity: 2 * day.Validity})
	hostFiles, hostErr := store.IssueHost("edge-1", []string{"127.0.0.1"}, day)
	nodeFiles, nodeErr := store.IssueNode("node-1", day)
	if err := errors.Join(initErr, hostErr, nodeErr); err != nil {
		return host, node, err
	}
	return link.Files{CAFile: store.AuthorityFile(), CertFile: hostFiles.CertFile, KeyFile: hostFiles.KeyFile},
		link.Files{CAFile: store.AuthorityFile(), CertFile: nodeFiles.CertFile, KeyFile: nodeFiles.KeyFile}, nil
}

// ends are both ends of a link of one kind, with a shape in between, until ctx ends.
func ends(ctx context.Context, group *sync.WaitGroup, kind string, s shape, dir string) (*hostconn.Connection, error) {
	hostFiles, nodeFiles, err := certificates(dir)
	if err != nil {
		return nil, err
	}
	known, err := link.LoadCertificates(hostFiles, nil)
	if err != nil {
		return nil, err
	}
	var listener net.Listener
	var secure credentials.TransportCredentials
	o := hostconn.Options{Files: nodeFiles, Version: "bench"}
	switch kind {
	case link.SchemeTLS:
		if listener, err = link.Listen(ctx, "127.0.0.1:0"); err != nil {
			return nil, err
		}
		secure = known.ServerCredentials(link.ServerOptions{})
		address, err := s.relay(ctx, group, listener.Addr().String())
		if err != nil {
			return nil, err
		}
		o.Target = "tls://" + address
	case link.SchemeReverse:
		o.Target = "reverse://edge-1"
		if o.Listen, err = freeAddress(ctx); err != nil {
			return nil, err
		}
		address, err := s.relay(ctx, group, o.Listen)
		if err != nil {
			return nil, err
		}
		if listener, err = link.NewConnector(link.ConnectorOptions{Address: address, Certificates: known}); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("-kinds: %q is neither tls nor reverse", kind)
	}
	server := remote.NewServer(remote.ServerOptions{
		Host: endless{group: group}, Runtime: fakecri.New(fakecri.Options{}).Conn(), Credentials: secure, Version: o.Version,
	})
	conn, err := hostconn.Connect(o)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	group.Go(func() { _ = server.Serve(ctx, listener) })
	return conn, nil
}

// freeAddress is one that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
