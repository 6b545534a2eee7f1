// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/tombolo-dev/tombolo/host"
)

// load is what is on the link beside the calls. It runs until ctx ends or limit bytes have gone, which it counts.
type load struct {
	name string
	run  func(ctx context.Context, node host.Host, limit int64, gone *atomic.Int64) error
}

// loads are what is measured. The first has nothing.
var loads = []load{
	{"nothing", func(ctx context.Context, _ host.Host, _ int64, _ *atomic.Int64) error { <-ctx.Done(); return nil }},
	{"log", func(ctx context.Context, node host.Host, limit int64, gone *atomic.Int64) error {
		return node.ReadLog(ctx, host.LogRequest{Path: "/log", Follow: true}, &counter{limit, gone}, io.Discard)
	}},
	{"forwarded port, to the node", func(ctx context.Context, node host.Host, limit int64, gone *atomic.Int64) error {
		conn, err := node.DialPod(ctx, "sandbox", 80)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		_, err = io.Copy(&counter{limit, gone}, conn)
		return err
	}},
	{"forwarded port, to the host", func(ctx context.Context, node host.Host, limit int64, gone *atomic.Int64) error {
		conn, err := node.DialPod(ctx, "sink", 80)
		if err != nil {
			return err
		}
		defer conn.Close()
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		for block := make([]byte, 64<<10); gone.Load() < limit; {
			n, err := conn.Write(block)
			gone.Add(int64(n))
			if err != nil {
				return err
			}
		}
		return nil
	}},
}

// counter counts bytes up to a limit.
type counter struct {
	limit int64
	gone  *atomic.Int64
}

// Write counts.
func (c *counter) Write(p []byte) (int, error) {
	if c.gone.Add(int64(len(p))) >= c.limit {
		return 0, io.EOF
	}
	return len(p), nil
}
