// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	rejections *prometheus.CounterVec
	orphans    prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_admission_rejections_total",
			Help: "Number of pods refused at admission, by reason.",
		}, []string{"reason"}),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_orphaned_runtime_pods_total",
			Help: "Number of running pods found in the runtime whose API object was confirmed to be gone.",
		}),
	}
	if r != nil {
		r.MustRegister(m.rejections, m.orphans)
	}
	return m
}
