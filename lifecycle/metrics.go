// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

type metrics struct {
	rejections *prometheus.CounterVec
	orphans    prometheus.Counter
	restarted  *prometheus.CounterVec
	start      prometheus.Histogram
	desired    *prometheus.GaugeVec
	active     *prometheus.GaugeVec
	mirrors    prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	static := []string{"static"}
	m := &metrics{
		rejections: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_admission_rejections_total",
			Help: "Number of pods refused at admission, by reason.",
		}, []string{"reason"}),
		orphans: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_orphaned_runtime_pods_total",
			Help: "Number of running pods found in the runtime whose API object was confirmed to be gone.",
		}),
		restarted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_restarted_pods_total",
			Help: "Number of pods that went away and came back, under the same UID, before they had ended; static says whether it is a static pod.",
		}, static),
		start: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_start_duration_seconds",
			Help: "Duration in seconds from the first sight of a pod to its phase Running.",
			Buckets: []float64{
				.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
			},
		}),
		desired: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_desired_pods",
			Help: "Number of pods that the node is asked to run; static says whether they are static pods.",
		}, static),
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_active_pods",
			Help: "Number of pods that count when another is admitted; static says whether they are static pods.",
		}, static),
		mirrors: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_mirror_pods",
			Help: "Number of static pods that have to have a mirror pod in the API.",
		}),
	}
	if r != nil {
		r.MustRegister(m.rejections, m.orphans, m.restarted, m.start, m.desired, m.active, m.mirrors)
	}
	return m
}

// setPods counts the pods. Each static pod has a mirror pod.
func (m *metrics) setPods(desired, active []*v1.Pod) {
	m.mirrors.Set(float64(countPods(m.desired, desired)))
	countPods(m.active, active)
}

func countPods(to *prometheus.GaugeVec, pods []*v1.Pod) (static int) {
	regular := 0
	for _, pod := range pods {
		if podrules.Static(pod) {
			static++
		} else {
			regular++
		}
	}
	to.WithLabelValues(podrules.StaticLabel(false)).Set(float64(regular))
	to.WithLabelValues(podrules.StaticLabel(true)).Set(float64(static))
	return static
}
