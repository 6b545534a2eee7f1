// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// echo is a server that repeats what it got once the caller has ended its direction.
func echo(t *testing.T) (address string, port uint16) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				data, _ := io.ReadAll(conn)
				_, _ = conn.Write(data)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	address = listener.Addr().String()
	_, text, _ := net.SplitHostPort(address)
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return address, uint16(n)
}

// answers is a runtime connection that answers every streaming request with one URL.
type answers struct {
	grpc.ClientConnInterface
	url string
	err error
}

func (a answers) Invoke(_ context.Context, _ string, _, reply any, _ ...grpc.CallOption) error {
	switch r := reply.(type) {
	case *runtimeapi.ExecResponse:
		r.Url = a.url
	case *runtimeapi.AttachResponse:
		r.Url = a.url
	case *runtimeapi.PortForwardResponse:
		r.Url = a.url
	}
	return a.err
}

func roundTrip(t *testing.T, conn net.Conn) string {
	t.Helper()
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok {
		t.Fatalf("%T has no half-close", conn)
	}
	if err := half.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestStreamingServerIsDialedOnlyWhereTheRuntimeSaid(t *testing.T) {
	h, _ := newTestHost(t)
	address, _ := echo(t)
	if _, err := h.DialStreaming(t.Context(), address); !errdefs.IsPermissionDenied(err) {
		t.Fatalf("before the runtime said anything: %v", err)
	}
	for name, call := range map[string]func(runtimeapi.RuntimeServiceClient) error{
		"exec": func(c runtimeapi.RuntimeServiceClient) error {
			return second(c.Exec(t.Context(), &runtimeapi.ExecRequest{}))
		},
		"attach": func(c runtimeapi.RuntimeServiceClient) error {
			return second(c.Attach(t.Context(), &runtimeapi.AttachRequest{}))
		},
		"port-forward": func(c runtimeapi.RuntimeServiceClient) error {
			return second(c.PortForward(t.Context(), &runtimeapi.PortForwardRequest{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			h.streaming.set("")
			client := runtimeapi.NewRuntimeServiceClient(h.ObserveStreaming(answers{url: "http://" + address + "/exec/token"}))
			if err := call(client); err != nil {
				t.Fatal(err)
			}
			conn, err := h.DialStreaming(t.Context(), address)
			if err != nil {
				t.Fatal(err)
			}
			if got := roundTrip(t, conn); got != "hello" {
				t.Errorf("got %q", got)
			}
			other, _ := echo(t)
			if _, err := h.DialStreaming(t.Context(), other); !errdefs.IsPermissionDenied(err) {
				t.Errorf("another port: %v", err)
			}
		})
	}
}

func TestStreamingAddressThatAFailedCallCarriesIsNotNoted(t *testing.T) {
	h, _ := newTestHost(t)
	address, _ := echo(t)
	client := runtimeapi.NewRuntimeServiceClient(h.ObserveStreaming(answers{url: "http://" + address + "/x", err: errdefs.ErrNotFound}))
	if _, err := client.Exec(t.Context(), &runtimeapi.ExecRequest{}); err == nil {
		t.Fatal("no error")
	}
	if _, err := h.DialStreaming(t.Context(), address); !errdefs.IsPermissionDenied(err) {
		t.Errorf("got %v", err)
	}
}

func TestStreamingAddressMustBeOnThisMachine(t *testing.T) {
	h, _ := newTestHost(t, func(o *Options) {
		o.Interfaces = func() ([]Interface, error) {
			return []Interface{{Name: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")}}}, nil
		}
	})
	for address, want := range map[string]string{
		"127.0.0.1:80":    "127.0.0.1:80",
		"[::1]:80":        "[::1]:80",
		"localhost:80":    "localhost:80",
		"0.0.0.0:80":      "127.0.0.1:80",
		"[::]:80":         "localhost:80",
		"192.0.2.7:80":    "192.0.2.7:80",
		"192.0.2.8:80":    "",
		"example.com:80":  "",
		"169.254.1.1:80":  "",
		"no port":         "",
		"[2001:db8::1]:1": "",
	} {
		got, err := h.ownAddress(address)
		if got != want || (want == "") != errdefs.IsPermissionDenied(err) {
			t.Errorf("%s: %q, %v, want %q", address, got, err, want)
		}
	}
}

func TestStreamingServerThatIsGoneIsUnavailable(t *testing.T) {
	h, _ := newTestHost(t)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close()
	h.noteStreamingURL("http://" + address + "/x")
	if _, err := h.DialStreaming(t.Context(), address); !errdefs.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
}

func TestPodPortIsDialedByItsSandbox(t *testing.T) {
	h, rt := newTestHost(t)
	_, port := echo(t)
	ours := map[string]string{cri.LabelCluster: "c", cri.LabelNode: "n"}
	network := func(mode runtimeapi.NamespaceMode) *runtimeapi.LinuxPodSandboxStatus {
		return &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{Network: mode}}}
	}
	for name, test := range map[string]struct {
		sandbox *runtimeapi.PodSandboxStatus
		is      func(error) bool
		want    string
	}{
		"own address":  {sandbox: &runtimeapi.PodSandboxStatus{Labels: ours, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "127.0.0.1"}}},
		"host network": {sandbox: &runtimeapi.PodSandboxStatus{Labels: ours, Linux: network(runtimeapi.NamespaceMode_NODE)}},
		"foreign": {sandbox: &runtimeapi.PodSandboxStatus{Labels: map[string]string{cri.LabelNode: "n"}, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "127.0.0.1"}},
			is: errdefs.IsPermissionDenied, want: "does not belong"},
		"not ready": {sandbox: &runtimeapi.PodSandboxStatus{Labels: ours, State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "127.0.0.1"}},
			is: errdefs.IsFailedPrecondition, want: "not ready"},
		"without address": {sandbox: &runtimeapi.PodSandboxStatus{Labels: ours}, is: errdefs.IsFailedPrecondition, want: "no address"},
		"refusing": {sandbox: &runtimeapi.PodSandboxStatus{Labels: ours, Network: &runtimeapi.PodSandboxNetworkStatus{Ip: "127.255.255.1"}},
			is: errdefs.IsFailedPrecondition, want: "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			rt.set(func(r *fakeRuntime) { r.sandbox = test.sandbox })
			conn, err := h.DialPod(t.Context(), "5a4db0", port)
			if test.is != nil {
				if !test.is(err) || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := roundTrip(t, conn); got != "hello" {
				t.Errorf("got %q", got)
			}
		})
	}
	if _, err := h.DialPod(t.Context(), "5a4db0", 0); !errdefs.IsInvalidArgument(err) {
		t.Errorf("port 0: %v", err)
	}
	rt.set(func(r *fakeRuntime) { r.err = errdefs.ErrNotFound })
	if _, err := h.DialPod(t.Context(), "5a4db0", port); !errdefs.IsNotFound(err) {
		t.Errorf("unknown sandbox: %v", err)
	}
}
