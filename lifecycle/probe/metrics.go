// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label "result", the kubelet's.
const (
	countSuccessful = "successful"
	countFailed     = "failed"
	countUnknown    = "unknown"
)

type metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prober_probe_total",
			Help: "Cumulative number of a liveness, readiness or startup probe for a container by result.",
		}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prober_probe_duration_seconds",
			Help: "Duration in seconds for a probe response.",
		}, []string{"probe_type", "container", "pod", "namespace"}),
	}
	if r != nil {
		r.MustRegister(m.total, m.duration)
	}
	return m
}

func (m *metrics) count(w *worker, result string, took time.Duration) {
	pod := w.pod.Load()
	m.total.WithLabelValues(string(w.key.kind), result, w.key.container, pod.Name, pod.Namespace, string(pod.UID)).Inc()
	if result != countUnknown {
		m.duration.WithLabelValues(string(w.key.kind), w.key.container, pod.Name, pod.Namespace).Observe(took.Seconds())
	}
}

// forget drops the series of a worker that has ended.
func (m *metrics) forget(w *worker) {
	pod := w.pod.Load()
	for _, result := range []string{countSuccessful, countFailed, countUnknown} {
		m.total.DeleteLabelValues(string(w.key.kind), result, w.key.container, pod.Name, pod.Namespace, string(pod.UID))
	}
	m.duration.DeleteLabelValues(string(w.key.kind), w.key.container, pod.Name, pod.Namespace)
}
