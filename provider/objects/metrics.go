// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	watches *prometheus.GaugeVec
	tokens  *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		watches: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tombolo_object_watches",
			Help: "Number of ConfigMaps and Secrets that are watched for pods of the node.",
		}, []string{"kind"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tombolo_token_requests_total",
			Help: "Cumulative number of requests for tokens of service accounts, by how they ended.",
		}, []string{"outcome"}),
	}
	if r != nil {
		r.MustRegister(m.watches, m.tokens)
	}
	return m
}
