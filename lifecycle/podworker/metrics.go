// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

type metrics struct {
	duration   *prometheus.HistogramVec
	start      prometheus.Histogram
	containers prometheus.Histogram
	working    *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_pod_worker_duration_seconds",
			Help:    "Duration in seconds of one step of a pod worker, waiting for a fresh observation included.",
			Buckets: prometheus.DefBuckets,
		}, []string{"operation_type"}),
		start: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_pod_worker_start_duration_seconds",
			Help:    "Duration in seconds from the first sight of a pod to the begin of its first sync.",
			Buckets: prometheus.DefBuckets,
		}),
		containers: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "kubelet_containers_per_pod_count",
			Help:    "Number of regular containers of each pod that got a worker.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 5),
		}),
		working: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_working_pods",
			Help: "Number of pods with a worker, by the phase of the worker, whether the pod is still desired, and whether it is static.",
		}, []string{"lifecycle", "config", "static"}),
	}
	if r != nil {
		r.MustRegister(m.duration, m.start, m.containers, m.working)
	}
	return m
}

// begun counts a pod whose first step begins.
func (m *metrics) begun(j job, waited time.Duration) {
	if j.phase == PhaseSync {
		m.start.Observe(waited.Seconds())
	}
	m.containers.Observe(float64(len(j.pod.Spec.Containers)))
}

func (m *metrics) observe(j job, took time.Duration) {
	op := j.update.String()
	if j.phase == PhaseTerminated {
		op = "terminated"
	}
	m.duration.WithLabelValues(op).Observe(took.Seconds())
}

// working is a combination of the labels of kubelet_working_pods.
type working struct{ lifecycle, config, static string }

// setWorking counts all pods. What has none is shown as zero, so that a series does not end where its pods do.
func (m *metrics) setWorking(byUID map[types.UID]*worker, desired map[types.UID]struct{}) {
	counts := map[working]int{}
	for _, phase := range []Phase{PhaseSync, PhaseTerminating, PhaseTerminated} {
		for _, config := range []string{"desired", "orphan"} {
			for _, static := range []bool{false, true} {
				counts[working{phase.String(), config, podrules.StaticLabel(static)}] = 0
			}
		}
		counts[working{phase.String(), "runtime_only", "unknown"}] = 0
	}
	for uid, wk := range byUID {
		phase := min(wk.state.phase(), PhaseTerminated) // a finished pod is only remembered
		labels := working{lifecycle: phase.String(), config: "runtime_only", static: "unknown"}
		if wk.pod != nil {
			labels.config, labels.static = "orphan", podrules.StaticLabel(podrules.Static(wk.pod))
			if _, ok := desired[uid]; ok {
				labels.config = "desired"
			}
		}
		counts[labels]++
	}
	for l, n := range counts {
		m.working.WithLabelValues(l.lifecycle, l.config, l.static).Set(float64(n))
	}
}
