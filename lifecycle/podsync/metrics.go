// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// Container types as the kubelet's metrics call them.
const (
	typeRegular   = "container"
	typeInit      = "init_container"
	typeEphemeral = "ephemeral_container"
)

// typeOf is the kind of a container in the kubelet's metrics.
func typeOf(kind podrules.ContainerKind) string {
	switch kind {
	case podrules.InitContainer, podrules.Sidecar:
		return typeInit
	case podrules.EphemeralContainer:
		return typeEphemeral
	default:
		return typeRegular
	}
}

const (
	labelHandler       = "runtime_handler"
	labelContainerType = "container_type"
	labelCode          = "code"
)

type metrics struct {
	startedPods      prometheus.Counter
	failedPods       prometheus.Counter
	started          *prometheus.CounterVec
	failed           *prometheus.CounterVec
	sandboxDuration  *prometheus.HistogramVec
	sandboxesRefused *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		startedPods: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_started_pods_total",
			Help: "Cumulative number of pods for which a sandbox was asked for.",
		}),
		failedPods: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_started_pods_errors_total",
			Help: "Cumulative number of sandboxes that could not be made. Lost answers are not counted.",
		}),
		started: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_started_containers_total",
			Help: "Cumulative number of container starts begun, by type of container.",
		}, []string{labelContainerType}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_started_containers_errors_total",
			Help: "Cumulative number of containers that could not be started, by type of container and waiting reason.",
		}, []string{labelContainerType, labelCode}),
		sandboxDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_run_podsandbox_duration_seconds",
			Help:    "Duration in seconds of making a sandbox, by runtime handler.",
			Buckets: prometheus.DefBuckets,
		}, []string{labelHandler}),
		sandboxesRefused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_run_podsandbox_errors_total",
			Help: "Cumulative number of errors of making a sandbox, lost answers included, by runtime handler.",
		}, []string{labelHandler}),
	}
	if r != nil {
		r.MustRegister(m.startedPods, m.failedPods, m.started, m.failed, m.sandboxDuration, m.sandboxesRefused)
	}
	return m
}

func (m *metrics) ranSandbox(handler string, took time.Duration, err error) {
	m.sandboxDuration.WithLabelValues(handler).Observe(took.Seconds())
	if err != nil {
		m.sandboxesRefused.WithLabelValues(handler).Inc()
	}
}
