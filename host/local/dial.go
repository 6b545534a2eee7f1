// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// streamingAddress is where the runtime said last that its streaming server listens.
type streamingAddress struct {
	mu      sync.Mutex
	address string
}

func (s *streamingAddress) set(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.address = address
}

func (s *streamingAddress) is(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return address != "" && s.address == address
}

// ObserveStreaming returns conn, with the streaming URLs of the runtime's answers noted: DialStreaming connects to the
// newest address the runtime gave, and to no other.
func (h *Host) ObserveStreaming(conn grpc.ClientConnInterface) grpc.ClientConnInterface {
	return observedConn{ClientConnInterface: conn, host: h}
}

type observedConn struct {
	grpc.ClientConnInterface
	host *Host
}

// Invoke makes a unary call and notes the URL of its answer, if it is one that has one.
func (c observedConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	if err != nil {
		return err
	}
	switch answer := reply.(type) {
	case *runtimeapi.ExecResponse:
		c.host.noteStreamingURL(answer.GetUrl())
	case *runtimeapi.AttachResponse:
		c.host.noteStreamingURL(answer.GetUrl())
	case *runtimeapi.PortForwardResponse:
		c.host.noteStreamingURL(answer.GetUrl())
	}
	return nil
}

func (h *Host) noteStreamingURL(text string) {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" {
		h.logger.Warn("the runtime gave a streaming address that cannot be read", "error", err)
		return
	}
	h.streaming.set(parsed.Host)
}

// DialStreaming connects to the runtime's streaming server.
func (h *Host) DialStreaming(ctx context.Context, address string) (net.Conn, error) {
	if !h.streaming.is(address) {
		return nil, fmt.Errorf("%q is not where the runtime's streaming server listens: %w", address, errdefs.ErrPermissionDenied)
	}
	target, err := h.ownAddress(address)
	if err != nil {
		return nil, err
	}
	return h.connect(ctx, "the runtime's streaming server", target, errdefs.ErrUnavailable)
}

// ownAddress returns the address to dial for a listener of this machine, and refuses any that is not one.
func (h *Host) ownAddress(address string) (string, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", fmt.Errorf("streaming address %q: %w: %w", address, err, errdefs.ErrPermissionDenied)
	}
	if name == "localhost" {
		return address, nil
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return "", fmt.Errorf("streaming address %q has no IP address: %w", address, errdefs.ErrPermissionDenied)
	}
	switch {
	case ip.IsUnspecified() && ip.Is4():
		return net.JoinHostPort("127.0.0.1", port), nil
	case ip.IsUnspecified():
		return net.JoinHostPort("localhost", port), nil
	case ip.IsLoopback() || slices.Contains(h.addresses(), ip.Unmap().String()):
		return address, nil
	default:
		return "", fmt.Errorf("streaming address %q is not one of this machine: %w", address, errdefs.ErrPermissionDenied)
	}
}

// DialPod connects to a port of a pod that a Tombolo node runs.
func (h *Host) DialPod(ctx context.Context, sandboxID string, port uint16) (net.Conn, error) {
	if err := checkContainerID(sandboxID); err != nil {
		return nil, err
	}
	if port == 0 {
		return nil, fmt.Errorf("port 0 cannot be dialed: %w", errdefs.ErrInvalidArgument)
	}
	status, err := h.runtime.SandboxStatus(ctx, sandboxID)
	if err != nil {
		return nil, fmt.Errorf("looking up sandbox %s: %w", sandboxID, err)
	}
	ip, err := podAddress(status)
	if err != nil {
		return nil, fmt.Errorf("sandbox %s: %w", sandboxID, err)
	}
	return h.connect(ctx, "sandbox "+sandboxID, net.JoinHostPort(ip, strconv.Itoa(int(port))), errdefs.ErrFailedPrecondition)
}

// podAddress returns the address of a sandbox, and refuses those that are not ours or not ready.
func podAddress(status *runtimeapi.PodSandboxStatus) (string, error) {
	labels := status.GetLabels()
	if labels[cri.LabelCluster] == "" || labels[cri.LabelNode] == "" {
		return "", fmt.Errorf("it does not belong to a Tombolo node: %w", errdefs.ErrPermissionDenied)
	}
	if status.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		return "", fmt.Errorf("it is not ready: %w", errdefs.ErrFailedPrecondition)
	}
	if status.GetLinux().GetNamespaces().GetOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE {
		return "127.0.0.1", nil
	}
	ip := status.GetNetwork().GetIp()
	if ip == "" {
		return "", fmt.Errorf("it has no address: %w", errdefs.ErrFailedPrecondition)
	}
	return ip, nil
}

// connect dials on this machine. A target that does not accept is an error of the given class.
func (h *Host) connect(ctx context.Context, what, address string, class error) (net.Conn, error) {
	conn, err := h.dialer.DialContext(ctx, "tcp", address)
	if ctx.Err() != nil && err != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w: %w", what, err, class)
	}
	return conn, nil
}
