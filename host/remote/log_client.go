// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

func (c *client) ReadLog(ctx context.Context, req host.LogRequest, stdout, stderr io.Writer) error {
	callCtx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the RPC when a writer failed
	stream, err := c.host.ReadLog(callCtx, logRequestToWire(req, stdout == nil, stderr == nil))
	if err != nil {
		return toNative(ctx, err)
	}
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return toNative(ctx, err)
		}
		out := stdout
		if piece.GetStream() == hostpb.LogStream_LOG_STREAM_STDERR {
			out = stderr
		}
		if out == nil {
			continue
		}
		if _, err := out.Write(piece.GetData()); err != nil {
			return fmt.Errorf("writing the log: %w", err)
		}
	}
}

func logRequestToWire(req host.LogRequest, skipStdout, skipStderr bool) *hostpb.ReadLogRequest {
	out := &hostpb.ReadLogRequest{
		Path:        req.Path,
		ContainerId: req.ContainerID,
		Follow:      req.Follow,
		Timestamps:  req.Timestamps,
		Since:       timeToWire(req.Since),
		SkipStdout:  skipStdout,
		SkipStderr:  skipStderr,
	}
	if req.TailLines >= 0 {
		out.TailLines = &req.TailLines
	}
	if req.LimitBytes >= 0 {
		out.LimitBytes = &req.LimitBytes
	}
	return out
}

func logRequestFromWire(r *hostpb.ReadLogRequest) host.LogRequest {
	out := host.LogRequest{
		Path:        r.GetPath(),
		ContainerID: r.GetContainerId(),
		Follow:      r.GetFollow(),
		Timestamps:  r.GetTimestamps(),
		TailLines:   -1,
		LimitBytes:  -1,
		Since:       timeFromWire(r.GetSince()),
	}
	if r.TailLines != nil {
		out.TailLines = max(*r.TailLines, 0)
	}
	if r.LimitBytes != nil {
		out.LimitBytes = max(*r.LimitBytes, 0)
	}
	return out
}
