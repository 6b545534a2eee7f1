// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import "github.com/prometheus/client_golang/prometheus"

// Reasons of refusals.
const (
	refusedHandshake = "handshake"
	refusedName      = "name"
	refusedTaken     = "taken"
	refusedRevoked   = "revoked"
	refusedUnknown   = "unknown"
	refusedBusy      = "busy"
)

type metrics struct {
	refused   *prometheus.CounterVec
	takeovers prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tombolo_node_host_connections_refused_total",
			Help: "Connections of hosts that were not taken: the handshake failed, the name is another one, another host has the name, the certificate is not good any more, or it is not known whether it is, or the peer took up room that others needed. Peers that went away by themselves are excluded.",
		}, []string{"reason"}),
		takeovers: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tombolo_node_host_takeovers_total",
			Help: "Connections of the host that replaced one which this side believed alive. If it grows all the time, two machines have the same certificate.",
		}),
	}
	for _, reason := range []string{refusedHandshake, refusedName, refusedTaken, refusedRevoked, refusedUnknown, refusedBusy} {
		m.refused.WithLabelValues(reason)
	}
	if registerer != nil {
		registerer.MustRegister(m.refused, m.takeovers)
	}
	return m
}
