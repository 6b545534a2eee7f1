// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/tls"
	"math"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// metrics of one kind of certificate. Names are the kubelet's.
type metrics struct {
	ttl      prometheus.GaugeOpts
	age      prometheus.Histogram
	failures prometheus.Counter
}

// ages are the kubelet's buckets, from a minute to four years.
var ages = []float64{60, 3600, 14400, 86400, 604800, 2592000, 7776000, 15552000, 31104000, 124416000}

func newClientMetrics() *metrics {
	return &metrics{
		ttl: prometheus.GaugeOpts{
			Name: "kubelet_certificate_manager_client_ttl_seconds",
			Help: "Seconds until the node's client certificate expires, negative if it has; +Inf without one.",
		},
		age: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "tombolo_certificate_manager_client_rotation_seconds",
			Help: "Age of client certificates in seconds when they were replaced.", Buckets: ages,
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_certificate_manager_client_expiration_renew_errors",
			Help: "Cumulative number of failed attempts to get a client certificate.",
		}),
	}
}

func newServingMetrics() *metrics {
	return &metrics{
		ttl: prometheus.GaugeOpts{
			Name: "kubelet_certificate_manager_server_ttl_seconds",
			Help: "Seconds until the serving certificate of the kubelet API expires, negative if it has; +Inf without one.",
		},
		age: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_certificate_manager_server_rotation_seconds",
			Help: "Age of serving certificates in seconds when they were replaced.", Buckets: ages,
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_server_expiration_renew_errors",
			Help: "Cumulative number of failed attempts to get a serving certificate.",
		}),
	}
}

// register registers the metrics, with the time that is left to the pair. The registerer may be nil.
func (m *metrics) register(r prometheus.Registerer, clk clock.PassiveClock, pair func() *tls.Certificate) {
	if r == nil {
		return
	}
	r.MustRegister(m.age, m.failures, prometheus.NewGaugeFunc(m.ttl, func() float64 {
		if p := pair(); p != nil && p.Leaf != nil {
			return math.Trunc(p.Leaf.NotAfter.Sub(clk.Now()).Seconds())
		}
		return math.Inf(1)
	}))
}
