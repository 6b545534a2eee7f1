// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/test/images"
)

var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+)`)

// webServer is a pod that answers HTTP on port 8080.
func (k *tester) webServer(name string) *v1.Pod {
	k.Helper()
	pod := k.awaitPodReady(k.create(k.pod(name, "", func(p *v1.Pod) {
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Command = images.Agnhost, nil
		p.Spec.Containers[0].Args = []string{"netexec", "--http-port=8080", "--udp-port=-1"}
	})))
	eventually(k.T, usual, "the web server listens", func() error { // there is no probe to tell
		_, err := k.tryKubectl(nil, "exec", name, "--", "wget", "-q", "-O", "/dev/null", "http://127.0.0.1:8080/echo?msg=x")
		return err
	})
	return pod
}

// forward starts kubectl port-forward to the pod's port 8080 and returns the local address.
func (k *tester) forward(ctx context.Context, pod string) string {
	k.Helper()
	cmd := k.kubectlCommand(ctx, "port-forward", "pod/"+pod, ":8080")
	pipe, err := cmd.StdoutPipe()
	must(k.T, err)
	must(k.T, cmd.Start())
	k.Cleanup(func() { _ = cmd.Wait() }) // it ends with ctx
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		if m := forwarding.FindStringSubmatch(lines.Text()); m != nil {
			go func() { _, _ = io.Copy(io.Discard, pipe) }() // it prints a line for each connection; ends with it
			return m[1]
		}
	}
	k.Fatal("kubectl port-forward ended before it forwarded")
	return ""
}

// fetch asks for an echo of the text.
func fetch(ctx context.Context, address, text string) error {
	ctx, cancel := context.WithTimeout(ctx, usual)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/echo?msg="+text, nil)
	if err != nil {
		return err
	}
	request.Close = true // a connection of its own
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(body) != text {
		return fmt.Errorf("answer %s %q, %w", resp.Status, body, err)
	}
	return nil
}

// TestTenForwardedConnectionsAtOnceOneOfThemReset: the reset takes no other connection down.
func TestTenForwardedConnectionsAtOnceOneOfThemReset(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	k.webServer("web")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address := k.forward(ctx, "web")
	must(t, fetch(ctx, address, "first"))

	// Ten connections that have all sent half of a request.
	var dialer net.Dialer
	connections := make([]*net.TCPConn, 10)
	for i := range connections {
		c, err := dialer.DialContext(ctx, "tcp", address)
		must(t, err)
		defer c.Close()
		connections[i] = c.(*net.TCPConn)
		_, err = fmt.Fprintf(c, "GET /echo?msg=%d HTTP/1.1\r\nHost: web\r\n", i)
		must(t, err)
	}
	time.Sleep(time.Second) // all of it is on its way
	must(t, connections[3].SetLinger(0))
	must(t, connections[3].Close()) // sends RST
	time.Sleep(time.Second)
	for i, c := range connections {
		if i == 3 {
			continue
		}
		must(t, c.SetDeadline(time.Now().Add(usual)))
		_, err := io.WriteString(c, "Connection: close\r\n\r\n")
		must(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Errorf("connection %d: %v", i, err)
			continue
		}
		body, err := io.ReadAll(resp.Body)
		if want := fmt.Sprint(i); err != nil || string(body) != want {
			t.Errorf("connection %d: %q, %v, want %q", i, body, err, want)
		}
		_ = resp.Body.Close()
	}
	must(t, fetch(ctx, address, "last"))
}

// TestForwardToAPortThatNobodyListensOn: that connection ends, and others can follow.
func TestForwardToAPortThatNobodyListensOn(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	k.awaitPodReady(k.create(k.pod("silent", "exec sleep 1d")))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	address := k.forward(ctx, "silent")
	err := fetch(ctx, address, "anyone")
	if err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("asking a port nobody listens on: %v, want a connection that is closed", err)
	}
}
