// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	hooks    *prometheus.CounterVec
	cutShort prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		hooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tombolo_prestop_hooks_total",
			Help: "Cumulative number of preStop hooks that ended, by how they ended. A hook that was joined counts once.",
		}, []string{"outcome"}),
		cutShort: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_sleep_action_terminated_early_total",
			Help: "Cumulative number of sleep hooks that were cut short because the grace period ended.",
		}),
	}
	if r != nil {
		r.MustRegister(m.hooks, m.cutShort)
	}
	return m
}
