// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	refused prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tombolo_host_connections_refused_total",
		Help: "Connections whose handshake failed: no certificate, one that is not valid, or no TLS 1.3. Peers that went away by themselves are excluded.",
	})}
	if registerer != nil {
		registerer.MustRegister(m.refused)
	}
	return m
}
