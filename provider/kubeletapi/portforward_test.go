// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// forward forwards a free local port to port 80 of the pod until the test ends, and returns its address.
func (b *bed) forward(t *testing.T) string {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(b.config)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(b.url + "/portForward/ns/web")
	if err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, u)
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	t.Cleanup(func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Errorf("forwarding ended with %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local)
}

func TestForwardedConnectionsAreIndependent(t *testing.T) {
	const many = 10
	b, m := newStreamBed(t, nil)
	m.forward = func(sandbox string, port int32, conn io.ReadWriteCloser) error {
		// The answer comes when the client has said everything.
		if said, err := io.ReadAll(conn); err == nil {
			_, _ = fmt.Fprintf(conn, "%s:%d %s", sandbox, port, checksum(bytes.NewReader(said)))
		}
		return nil
	}
	address := b.forward(t)
	reset := must(net.Dial("tcp", address)).(*net.TCPConn)
	_, _ = io.WriteString(reset, "half a")
	var wg sync.WaitGroup
	for i := range many {
		wg.Go(func() {
			if i == many/2 {
				_ = reset.SetLinger(0)
				_ = reset.Close()
				return
			}
			said := strings.Repeat("x", i*10000)
			want := "s-web:80 " + checksum(strings.NewReader(said))
			if got, err := converse(address, said); got != want || err != nil {
				t.Errorf("connection %d: got %q, %v; want %q", i, got, err, want)
			}
		})
	}
	wg.Wait()
}

// converse says something, ends its side and returns the answer.
func converse(address, said string) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, said); err != nil {
		return "", err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}
