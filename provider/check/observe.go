// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
)

const (
	// retryPause is the pause between attempts to reach the host while it is not known why it is not reached.
	retryPause = 200 * time.Millisecond
	// closeTimeout is how long the connection may take to close.
	closeTimeout = 5 * time.Second
)

// Options say what to look at.
type Options struct {
	// Host is how the node reaches its host. Nothing on the host is changed or taken possession of.
	Host hostconn.Options
	// Node is the name of the node, "" if it is not known.
	Node string
	// Files are certificates in files, besides those of the link.
	Files []CertificateFile
	// Sources are identities towards the API.
	Sources []Source
	// ClientCAFromCluster says that the node reads the authority of its callers from the cluster.
	ClientCAFromCluster bool
	// Patience bounds everything together.
	Patience time.Duration
	Clock    clock.Clock
}

// Observe gathers everything. What goes wrong becomes part of what was observed.
func Observe(ctx context.Context, o Options) *Observed {
	ctx, cancel := context.WithTimeout(ctx, o.Patience)
	defer cancel()
	out := &Observed{Node: o.Node, Version: o.Host.Version}
	identities := make([]Identity, len(o.Sources))
	var wg sync.WaitGroup
	wg.Go(func() { o.observeHost(ctx, out) })
	for i, source := range o.Sources {
		wg.Go(func() { identities[i] = source.observe(ctx, o) })
	}
	wg.Wait()
	out.Identities = identities
	for _, file := range o.Files {
		out.Certificates = append(out.Certificates, file.read()...)
	}
	for _, source := range o.Sources {
		out.Certificates = append(out.Certificates, source.certificates()...)
	}
	out.Now = o.Clock.Now()
	return out
}

// observeHost asks the host, and what stands in the way to it.
func (o *Options) observeHost(ctx context.Context, out *Observed) {
	if out.Target, out.LinkErr = link.ParseTarget(o.Host.Target); out.LinkErr != nil {
		return
	}
	out.Certificates = linkCertificates(ctx, out.Target, o.Host)
	options := o.Host
	options.Inspect = true
	conn, err := hostconn.Connect(options)
	if err != nil {
		out.LinkErr = err
		return
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		_ = conn.Close(closing) // nothing was begun that could be lost
	}()
	out.LinkErr = o.askMachine(ctx, conn, out)
	if out.LinkErr != nil || out.Machine == nil {
		return
	}
	runtime := cri.NewClient(conn.CRI, cri.ClientOptions{Clock: o.Clock})
	out.Runtime, out.RuntimeErr = runtime.Version(ctx)
	if out.RuntimeErr == nil {
		out.Status, out.StatusErr = runtime.Status(ctx)
		_, out.ImagesErr = runtime.ListImages(ctx)
	} else if out.Target.Scheme == link.SchemeUnix {
		out.LinkErr = conn.Err() // in the same process, the machine answers whether or not the socket does
	}
}

// askMachine asks for the facts until they are there or it is known why not. The error is that the host is not reached.
func (o *Options) askMachine(ctx context.Context, conn *hostconn.Connection, out *Observed) error {
	for {
		out.Machine, out.MachineErr = conn.Facts.Facts(ctx)
		state := conn.State()
		switch {
		case out.MachineErr == nil:
			o.measure(ctx, conn, out)
			return nil
		case state.Up && !errdefs.IsUnavailable(out.MachineErr):
			return nil
		case state.Err != nil && !state.Waiting:
			return state.Err
		}
		timer := o.Clock.NewTimer(retryPause)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("no answer within %s: %w", o.Patience, cmp.Or(state.Err, out.MachineErr))
		}
	}
}

// measure asks once more: the first time, the connection had to be made.
func (o *Options) measure(ctx context.Context, conn *hostconn.Connection, out *Observed) {
	sent := o.Clock.Now()
	facts, err := conn.Facts.Facts(ctx)
	if out.RoundTrip = o.Clock.Since(sent); err == nil {
		out.Machine = facts
	}
	out.MachineAt = sent.Add(out.RoundTrip / 2)
}
