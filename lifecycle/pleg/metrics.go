// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// metrics are the kubelet's, and one of our own for what cannot happen there.
type metrics struct {
	duration    prometheus.Histogram
	podDuration prometheus.Histogram
	interval    prometheus.Histogram
	lastSeen    prometheus.Gauge
	discarded   prometheus.Counter
	stale       prometheus.Gauge
	mismatches  prometheus.Counter
	pods        prometheus.Gauge
	containers  *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pleg_relist_duration_seconds",
			Help: "Duration in seconds of relisting all pods. Inspections of changed pods go on beside it and are not included.",
		}),
		podDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pleg_pod_relist_duration_seconds",
			Help: "Duration in seconds of relisting a single pod on demand, without its inspection.",
		}),
		interval: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pleg_relist_interval_seconds",
			Help: "Interval in seconds between the starts of relists.",
		}),
		lastSeen: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_pleg_last_seen_seconds",
			Help: "Unix time in seconds when the runtime was last seen: when the last successful relist began, or later if the host tells of changes.",
		}),
		discarded: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_pleg_discard_events",
			Help: "The number of events dropped because their reader was too slow.",
		}),
		stale: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "tombolo_pleg_stale_pods",
			Help: "The number of pods that changed and whose inspection takes long or failed.",
		}),
		mismatches: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tombolo_pleg_digest_mismatches_total",
			Help: "The number of relists because the host saw other containers than were known here.",
		}),
		pods: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "kubelet_running_pods",
			Help: "Number of pods that have a ready pod sandbox.",
		}),
		containers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_running_containers",
			Help: "Number of containers by state.",
		}, []string{"container_state"}),
	}
	if r != nil {
		r.MustRegister(m.duration, m.podDuration, m.interval, m.lastSeen, m.discarded, m.stale, m.mismatches, m.pods, m.containers)
	}
	return m
}

// count counts what the newest lists show.
func (m *metrics) count(pods []*snapshot) {
	ready := 0
	states := map[string]int{}
	for _, s := range pods {
		for _, box := range s.sandboxes {
			if box.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
				ready++
				break
			}
		}
		for _, c := range s.containers {
			states[cri.StateOf(c.GetState()).String()]++
		}
	}
	m.pods.Set(float64(ready))
	m.containers.Reset()
	for state, n := range states {
		m.containers.WithLabelValues(state).Set(float64(n))
	}
}

func (m *metrics) seen(at time.Time) { m.lastSeen.Set(float64(at.UnixNano()) / float64(time.Second)) }
