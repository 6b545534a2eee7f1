// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// connectTargetTimeout bounds how long a target of a byte stream may take to accept.
const connectTargetTimeout = 10 * time.Second

type dialServer = grpc.BidiStreamingServer[hostpb.DialRequest, hostpb.DialResponse]

func (s *service) Dial(stream dialServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	conn, err := s.connectTarget(stream.Context(), first)
	if err != nil {
		return toStatus(err)
	}
	defer conn.Close()
	if err := stream.Send(&hostpb.DialResponse{Message: &hostpb.DialResponse_Connected{Connected: &hostpb.Connected{}}}); err != nil {
		return err
	}
	return s.relay(stream, conn)
}

func (s *service) connectTarget(ctx context.Context, first *hostpb.DialRequest) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTargetTimeout)
	defer cancel()
	switch target := first.GetMessage().(type) {
	case *hostpb.DialRequest_StreamingAddress:
		return s.host.DialStreaming(ctx, target.StreamingAddress)
	case *hostpb.DialRequest_PodPort:
		port := target.PodPort.GetPort()
		if port == 0 || port > math.MaxUint16 {
			return nil, status.Errorf(codes.InvalidArgument, "port %d is not between 1 and 65535", port)
		}
		return s.host.DialPod(ctx, target.PodPort.GetSandboxId(), uint16(port))
	default:
		return nil, status.Error(codes.InvalidArgument, "the first message of a byte stream must name its target")
	}
}

// relay moves bytes both ways until both directions have ended or one of them broke.
func (s *service) relay(stream dialServer, conn net.Conn) error {
	// The caller may be gone after it has ended its direction, when nothing is received any more that would tell.
	stop := context.AfterFunc(stream.Context(), func() { reset(conn) })
	defer stop()
	toTarget := make(chan error, 1)
	s.relays.Go(func() {
		err := relayToTarget(stream, conn)
		toTarget <- err
		if err != nil {
			reset(conn) // ends the other direction as well
		}
	})
	err := relayToCaller(stream, conn)
	if err == nil {
		return <-toTarget
	}
	select {
	case first := <-toTarget:
		if first != nil {
			return first
		}
	default:
		// The other direction waits for the caller, and ends when this handler has returned.
	}
	return err
}

// relayToTarget writes what the caller sends until the caller ends its direction.
func relayToTarget(stream dialServer, conn net.Conn) error {
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return closeWrite(conn)
		}
		if err != nil {
			return err
		}
		if _, err := conn.Write(message.GetData()); err != nil {
			return status.Errorf(codes.Aborted, "writing to the target: %v", err)
		}
	}
}

// relayToCaller sends what the target writes until the target ends its direction.
func relayToCaller(stream dialServer, conn net.Conn) error {
	buffer := make([]byte, chunkSize)
	for {
		n, err := conn.Read(buffer)
		if n > 0 {
			// A copy, because gRPC may still use the message after Send returned.
			data := append([]byte(nil), buffer[:n]...)
			if err := stream.Send(&hostpb.DialResponse{Message: &hostpb.DialResponse_Data{Data: data}}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return stream.Send(&hostpb.DialResponse{Message: &hostpb.DialResponse_Eof{Eof: &hostpb.EndOfStream{}}})
		}
		if err != nil {
			return status.Errorf(codes.Aborted, "reading from the target: %v", err)
		}
	}
}

// closeWrite ends one direction of a connection.
func closeWrite(conn net.Conn) error {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		return status.Errorf(codes.Internal, "%T has no half-close", conn)
	}
	if err := half.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		return status.Errorf(codes.Aborted, "ending the direction to the target: %v", err)
	}
	return nil
}

// reset closes a connection so that the target sees that it broke and was not ended.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		// Without effect on a connection that is closed already.
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
