// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package evict

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	evictions *prometheus.CounterVec
	took      prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_evictions",
			Help: "Number of pods that were evicted, by what they exceeded.",
		}, []string{"eviction_signal"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "tombolo_pod_disk_usage_duration_seconds",
			Help:    "Duration in seconds of measuring what a pod with limits takes of the host's disk.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 9),
		}),
	}
	if r != nil {
		r.MustRegister(m.evictions, m.took)
	}
	return m
}
