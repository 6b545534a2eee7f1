// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package exithook

import "github.com/prometheus/client_golang/prometheus"

func newHookCounter(r prometheus.Registerer) *prometheus.CounterVec {
	hooks := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "tombolo_prestop_on_exit_hooks_total",
		Help: "Cumulative number of preStop hooks of containers that ended by themselves, by how the hooks ended.",
	}, []string{"outcome"})
	if r != nil {
		r.MustRegister(hooks)
	}
	return hooks
}
