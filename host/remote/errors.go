// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// toNative turns the error of a finished call into a class. The end of the caller's ctx stays the context's error; a
// cancellation that came from elsewhere means that the connection was closed and is Unavailable.
func toNative(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	_, fromWire := status.FromError(err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !fromWire:
		return err
	case status.Code(err) == codes.Canceled:
		return fmt.Errorf("%w: the connection to the host was closed during the call", errdefs.ErrUnavailable)
	default:
		return errgrpc.ToNative(err)
	}
}

// toStatus turns an error of the host's implementation into a gRPC status with its class and text, and nothing else of
// it. An error of no class is a fault of the machine.
func toStatus(err error) error {
	if err == nil {
		return nil
	}
	st := status.Convert(errgrpc.ToGRPC(err))
	if st.Code() == codes.Unknown {
		return status.Error(codes.Internal, st.Message())
	}
	return status.Error(st.Code(), st.Message())
}
