// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import "github.com/prometheus/client_golang/prometheus"

// metrics are those of the machine behind the link.
type metrics struct {
	hostUp      prometheus.Gauge
	runtimeUp   prometheus.Gauge
	clockOffset prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "tombolo", Name: name, Help: help})
	}
	m := &metrics{
		hostUp:      gauge("host_up", "Whether the host answers (1) or the link to it is down (0)."),
		runtimeUp:   gauge("runtime_up", "Whether the container runtime of the host answers (1) or not (0)."),
		clockOffset: gauge("host_clock_offset_seconds", "How far the wall clock of the host is ahead of the one of the node process."),
	}
	if r != nil {
		r.MustRegister(m.hostUp, m.runtimeUp, m.clockOffset)
	}
	return m
}

// observe publishes a state.
func (m *metrics) observe(s State) {
	m.hostUp.Set(up(s.Facts != nil && s.Link == nil))
	m.runtimeUp.Set(up(s.Runtime != nil && s.Link == nil && s.RuntimeDown == nil))
	m.clockOffset.Set(s.ClockOffset.Seconds())
}

func up(ok bool) float64 {
	if ok {
		return 1
	}
	return 0
}
