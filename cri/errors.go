// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
)

// native turns the error of a finished RPC into a class. The end of the caller's ctx, the end of the call's own timeout
// and a cancellation that came from elsewhere (a closed connection, a proxy that went away) look alike on the wire and
// are told apart here: the first stays the context's error, the second is DeadlineExceeded, the third Unavailable.
func native(ctx context.Context, err error, timeout time.Duration) error {
	if err == nil {
		return nil
	}
	err = errgrpc.ToNative(err)
	switch {
	case !errdefs.IsCanceled(err) && !errdefs.IsDeadlineExceeded(err):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case errdefs.IsDeadlineExceeded(err) && timeout > noDeadline:
		return fmt.Errorf("no answer from the runtime within %s: %w", timeout, err)
	case errdefs.IsDeadlineExceeded(err):
		return err
	default:
		return fmt.Errorf("%w: the connection to the runtime was closed during the call", errdefs.ErrUnavailable)
	}
}

// fromTransport says whether the message of a cancelled call is gRPC's own and no answer of the other side.
func fromTransport(message string) bool {
	for _, own := range []string{"grpc: ", "stream terminated by RST_STREAM", "the provided transport"} {
		if strings.HasPrefix(message, own) {
			return true
		}
	}
	return false
}

// OutcomeUnknown says of an error of a Client's call that no answer of the runtime stands behind it: the link broke or
// the time was up. Whether the call had its effect is unknown, and it says nothing about the workload. The caller
// observes anew or repeats an idempotent call.
func OutcomeUnknown(err error) bool {
	return errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err) || errdefs.IsCanceled(err)
}

// ignoreNotFound makes removal of what is already gone a success.
func ignoreNotFound(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}
