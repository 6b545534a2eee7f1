// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts and times calls to the runtime under the kubelet's names. It implements Observer.
type Metrics struct {
	total    *prometheus.CounterVec
	errors   *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

var _ Observer = (*Metrics)(nil)

const labelOperationType = "operation_type"

// NewMetrics returns Metrics that are registered with r unless it is nil. Registering twice with one registry panics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_total",
			Help: "Cumulative number of runtime operations by operation type.",
		}, []string{labelOperationType}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_errors_total",
			Help: "Cumulative number of runtime operations that ended with an error, by operation type.",
		}, []string{labelOperationType}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_runtime_operations_duration_seconds",
			Help: "Duration in seconds of runtime operations by operation type.",
			// The kubelet's buckets: 14 of them from 5 ms, each 2.5 times the one before.
			Buckets: prometheus.ExponentialBuckets(.005, 2.5, 14),
		}, []string{labelOperationType}),
	}
	if r != nil {
		r.MustRegister(m.total, m.errors, m.duration)
	}
	return m
}

// Observe counts one operation.
func (m *Metrics) Observe(operation string, took time.Duration, err error) {
	m.total.WithLabelValues(operation).Inc()
	m.duration.WithLabelValues(operation).Observe(took.Seconds())
	if err != nil {
		m.errors.WithLabelValues(operation).Inc()
	}
}
