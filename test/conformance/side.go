// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/tombolo-dev/tombolo/test/images"
	"github.com/tombolo-dev/tombolo/test/nodes"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

// hostName is the name of the host and of the node, the same on both sides.
const hostName = "node-1"

// run runs a selection on a node of a kind, on a control plane and a host that are made for it.
func (r *runner) run(ctx context.Context, kind nodes.Kind, s selection) (results Results, err error) {
	begin := time.Now()
	dir := filepath.Join(r.output, string(kind))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	cluster, err := testbed.Start(ctx, testbed.Options{Log: r.out, Bin: r.bin, Images: images.ConformanceSet})
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, cluster.Stop(context.WithoutCancel(ctx)))
		// Only the logs are left of the state folder.
		err = errors.Join(err, keepLogs(cluster.LogDir(), filepath.Join(dir, "logs")), os.RemoveAll(cluster.StateDir()))
	}()
	registry, err := serveImages(ctx, cluster)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, registry.close()) }()
	host, err := cluster.AddHost(ctx, hostName, testbed.HostOptions{Registry: registry.url})
	if err != nil {
		return nil, err
	}
	if _, err := nodes.Start(ctx, cluster, host, kind, r.tombolo); err != nil {
		return nil, err
	}
	fmt.Fprintf(r.out, "node %s is Ready after %s; the suite runs with %d processes, output in %s\n", kind, seconds(time.Since(begin)), r.processes, dir)
	begin = time.Now()
	results, err = runSuite(ctx, cluster, s, r.processes, dir, r.out)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.out, "%s: %s, in %s\n", kind, results.summary(), time.Since(begin).Round(time.Second))
	return results, nil
}

// keepLogs moves the logs of a testbed in the place of those of an earlier run.
func keepLogs(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	return os.CopyFS(to, os.DirFS(from))
}

// registry is a server of the images on the cluster's side.
type registry struct {
	url    string
	server *http.Server
	images *images.Registry
	done   chan error
}

// serveImages starts a registry that hosts reach. The caller closes it.
func serveImages(ctx context.Context, cluster *testbed.Cluster) (*registry, error) {
	archive, err := cluster.ImageArchive(ctx)
	if err != nil {
		return nil, err
	}
	all, err := images.OpenRegistry(archive)
	if err != nil {
		return nil, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(cluster.Address().String(), "0"))
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	r := &registry{
		url: "http://" + listener.Addr().String(), images: all, done: make(chan error, 1),
		server: &http.Server{Handler: all, ReadHeaderTimeout: time.Minute},
	}
	go func() { r.done <- r.server.Serve(listener) }()
	return r, nil
}

func (r *registry) close() error {
	err := r.server.Close()
	if served := <-r.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(err, r.images.Close())
}
