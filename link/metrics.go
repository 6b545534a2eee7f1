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
		registerer.MustRegister(m.refused, expiration(certificates))
	}
	return m
}

func expiration(certificates *Certificates) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tombolo_host_certificate_expiration_timestamp_seconds",
		Help: "Unix time until which the host's own certificate is valid.",
	}, func() float64 { return float64(certificates.current().certificate.Leaf.NotAfter.Unix()) })
}

// connectorMetrics are those of a host that connects to its node.
type connectorMetrics struct {
	attempts *prometheus.CounterVec
}

// Results of attempts to connect.
const (
	attemptWelcome = "welcome"
	attemptFailed  = "failed"
)

func newConnectorMetrics(registerer prometheus.Registerer, c *Connector) *connectorMetrics {
	m := &connectorMetrics{attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tombolo_host_connects_total",
		Help: "Attempts to connect to the node, by result: welcome or failed.",
	}, []string{"result"})}
	for _, result := range []string{attemptWelcome, attemptFailed} {
		m.attempts.WithLabelValues(result)
	}
	if registerer != nil {
		registerer.MustRegister(m.attempts, expiration(c.o.Certificates), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tombolo_host_link_up",
			Help: "1 while the node speaks on the connection that this host made, else 0.",
		}, func() float64 {
			if c.tracker.get().Up {
				return 1
			}
			return 0
		}))
	}
	return m
}
