// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

// line is one of an endless log.
var line = append(bytes.Repeat([]byte("x"), 127), '\n')

// endless is a host whose logs and ports have more than anybody can take. Only what is measured is there.
type endless struct {
	host.Host
	group *sync.WaitGroup
}

// ListPods answers as a host with some pods does.
func (endless) ListPods(context.Context) ([]types.UID, error) {
	return []types.UID{"6a0f6f3c-6d0f-4d57-8d3a-0d8b3c1e7a01", "6a0f6f3c-6d0f-4d57-8d3a-0d8b3c1e7a02"}, nil
}

// ReadLog writes lines until nobody wants them.
func (endless) ReadLog(ctx context.Context, _ host.LogRequest, stdout, _ io.Writer) error {
	block := bytes.Repeat(line, 512)
	for ctx.Err() == nil {
		if _, err := stdout.Write(block); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// DialPod returns a connection on which bytes come without end, and any are taken.
func (e endless) DialPod(context.Context, string, uint16) (net.Conn, error) {
	near, far := net.Pipe()
	block := bytes.Repeat(line, 512)
	e.group.Go(func() {
		for {
			if _, err := far.Write(block); err != nil {
				return
			}
		}
	})
	e.group.Go(func() {
		defer far.Close()
		_, _ = io.Copy(io.Discard, far)
	})
	return near, nil
}
