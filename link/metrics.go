// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	refused prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, certificates *Certificates) *metrics {
	m := &metrics{refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tombolo_host_connections_refused_total",
		Help: "Connections whose handshake failed: no certificate, one that is not valid, or no TLS 1.3. Peers that went away by themselves are excluded.",
	})}
	if registerer != nil {
		registerer.MustRegister(m.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tombolo_host_certificate_expiration_timestamp_seconds",
			Help: "Unix time until which the host's own certificate is valid.",
		}, func() float64 { return float64(certificates.current().certificate.Leaf.NotAfter.Unix()) }))
	}
	return m
}
