// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the kubelet's own of its HTTP server. The server type is always "readwrite": there is no read-only port.
type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inflight *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	labels := []string{"method", "path", "server_type", "long_running"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_http_requests_total",
			Help: "Number of HTTP requests received since the server started.",
		}, labels),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_http_requests_duration_seconds",
			Help:    "Time in seconds to serve HTTP requests.",
			Buckets: prometheus.DefBuckets,
		}, labels),
		inflight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "kubelet_http_inflight_requests",
			Help: "Number of HTTP requests being served.",
		}, labels),
	}
	if r != nil {
		r.MustRegister(m.requests, m.duration, m.inflight)
	}
	return m
}

// began counts a request and returns what to call when it ended.
func (m *metrics) began(r *http.Request) func(took time.Duration) {
	path := pathBucket(r.URL.Path)
	labels := []string{methodBucket(r.Method), path, "readwrite", strconv.FormatBool(longRunning(path))}
	m.requests.WithLabelValues(labels...).Inc()
	m.inflight.WithLabelValues(labels...).Inc()
	return func(took time.Duration) {
		m.inflight.WithLabelValues(labels...).Dec()
		m.duration.WithLabelValues(labels...).Observe(took.Seconds())
	}
}

// pathBucket returns the first segment of a path if it is one of ours, so that no caller can make label values.
func pathBucket(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "healthz", "pods", "runningpods", "containerLogs", "exec", "attach", "portForward", "metrics":
		return first
	default:
		return "other"
	}
}

func longRunning(bucket string) bool {
	return bucket == "exec" || bucket == "attach" || bucket == "portForward"
}

func methodBucket(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions,
		http.MethodTrace, http.MethodConnect:
		return method
	default:
		return "other"
	}
}
