// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/provider/apierr"
)

const (
	// discoverPause is the pause between attempts to learn something from the API server.
	discoverPause = time.Second
	// discoverTimeout is the deadline of one attempt.
	discoverTimeout = 10 * time.Second
	// discoverLogPeriod is how often the log says what is waited for.
	discoverLogPeriod = 5 * time.Second
)

// until repeats ask until it succeeds, and says every few seconds what is waited for. The error is that ctx ended.
func until(ctx context.Context, clk clock.Clock, logger *slog.Logger, what string, ask func(context.Context) error) error {
	var logged time.Time
	for {
		attempt, cancel := context.WithTimeout(ctx, discoverTimeout)
		err := ask(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if logged.IsZero() || clk.Since(logged) >= discoverLogPeriod {
			logged = clk.Now()
			logger.Warn("Waiting", "for", what, "error", err)
		}
		timer := clk.NewTimer(discoverPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

// clusterID tells clusters apart by the UID of the Service that every cluster has and never replaces.
func clusterID(ctx context.Context, client kubernetes.Interface) (string, error) {
	service, err := client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading Service default/kubernetes, whose UID identifies the cluster: %w", apierr.Classify(err))
	}
	return string(service.UID), nil
}

// routeTo returns the address of this machine from which the API server is reached, which is the one most likely to be
// reached by it. No packet is sent.
func routeTo(ctx context.Context, config *rest.Config) (netip.Addr, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading the address of the API server: %w", err)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "udp", hostPort(server))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("finding the route to the API server %s: %w", server.Host, err)
	}
	defer conn.Close()
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, fmt.Errorf("reading the local address of the route to %s: %w", server.Host, err)
	}
	return local.Addr().Unmap().WithZone(""), nil
}

// hostPort is the address of a URL with its port.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}
