// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import "github.com/prometheus/client_golang/prometheus"

// Labels of the metrics.
const (
	labelService = "service"
	labelMethod  = "method"
	labelCode    = "code"
)

type metrics struct {
	handled  *prometheus.CounterVec
	duration *prometheus.HistogramVec
	running  *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tombolo_host_calls_total",
			Help: "Calls that ended, by service, method and gRPC code.",
		}, []string{labelService, labelMethod, labelCode}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tombolo_host_call_duration_seconds",
			Help: "How long calls took, by service and method. Streaming calls last as long as their stream.",
			// From 5 ms to 12 minutes.
			Buckets: prometheus.ExponentialBuckets(.005, 2.5, 14),
		}, []string{labelService, labelMethod}),
		running: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "tombolo_host_calls_running",
			Help: "Calls that are under way, by service and method.",
		}, []string{labelService, labelMethod}),
	}
	if registerer != nil {
		registerer.MustRegister(m.handled, m.duration, m.running)
	}
	return m
}
