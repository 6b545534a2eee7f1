// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
)

type metrics struct {
	duration *prometheus.HistogramVec
	working  *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_pod_worker_duration_seconds",
			Help:    "Duration in seconds of one step of a pod worker, waiting for a fresh observation included.",
			Buckets: prometheus.DefBuckets,
		}, []string{"operation_type"}),
		working: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_working_pods",
			Help: "Number of pods with a worker, by the phase of the worker and whether the API still has the pod.",
		}, []string{"lifecycle", "config"}),
	}
	if r != nil {
		r.MustRegister(m.duration, m.working)
	}
	return m
}

func (m *metrics) observe(j job, took time.Duration) {
	op := j.update.String()
	if j.phase == PhaseTerminated {
		op = "terminated"
	}
	m.duration.WithLabelValues(op).Observe(took.Seconds())
}

func (m *metrics) setWorking(byUID map[types.UID]*worker, desired map[types.UID]struct{}) {
	m.working.Reset()
	for uid, wk := range byUID {
		config := "desired"
		if _, ok := desired[uid]; !ok {
			config = "orphan"
			if wk.pod == nil {
				config = "runtime_only"
			}
		}
		m.working.WithLabelValues(wk.state.phase().String(), config).Inc()
	}
}
