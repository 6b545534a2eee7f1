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
		Help: "Connections whose handshake failed: no certificate, one that is not valid or of another node, or no TLS 1.3. Peers that went away by themselves are excluded.",
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
		}, c.tracker.up))
	}
	return m
}

func newLosses() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tombolo_node_link_losses_total",
		Help: "Connections to the host that ended after the host had spoken on them, whatever ended them.",
	})
}

// publish registers the metrics of a node's end. The registerer may be nil.
func (t *tracker) publish(registerer prometheus.Registerer) {
	if registerer == nil {
		return
	}
	registerer.MustRegister(t.losses, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tombolo_node_link_up",
		Help: "1 while the host speaks on the connection to it, else 0.",
	}, t.up))
}

// up is 1 or 0.
func (t *tracker) up() float64 {
	if t.get().Up {
		return 1
	}
	return 0
}
