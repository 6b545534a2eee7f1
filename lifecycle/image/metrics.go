// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

// Values of the labels that say whether something is so; what was not found out is unknown.
const (
	labelUnknown = "unknown"
	labelTrue    = "true"
	labelFalse   = "false"
)

// sizeBuckets are the kubelet's classes of image sizes: a size belongs to the last class whose lower bound it exceeds.
var sizeBuckets = []struct {
	above uint64 // bytes
	label string
}{
	{0, "0-10MB"},
	{10 << 20, "10MB-100MB"},
	{100 << 20, "100MB-500MB"},
	{500 << 20, "500MB-1GB"},
	{1 << 30, "1GB-5GB"},
	{5 << 30, "5GB-10GB"},
	{10 << 30, "10GB-20GB"},
	{20 << 30, "20GB-30GB"},
	{30 << 30, "30GB-40GB"},
	{40 << 30, "40GB-60GB"},
	{60 << 30, "60GB-100GB"},
	{100 << 30, "GT100GB"},
}

func sizeBucket(bytes uint64) string {
	label := "N/A"
	for _, b := range sizeBuckets {
		if bytes > b.above {
			label = b.label
		}
	}
	return label
}

type metrics struct {
	pullDuration *prometheus.HistogramVec
	requests     *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		pullDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "kubelet_image_pull_duration_seconds",
			Help:    "Duration in seconds of successful image pulls, waiting for a turn included, by class of image size.",
			Buckets: []float64{1, 5, 10, 20, 30, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600},
		}, []string{"image_size_in_bytes"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_image_manager_ensure_image_requests_total",
			Help: "Number of times the image of a container was asked for before its start, by pull policy, whether it was present and whether it had to be pulled.",
		}, []string{"pull_policy", "present_locally", "pull_required"}),
	}
	if r != nil {
		r.MustRegister(m.pullDuration, m.requests)
	}
	return m
}

func (m *metrics) pulled(size uint64, took time.Duration) {
	m.pullDuration.WithLabelValues(sizeBucket(size)).Observe(took.Seconds())
}

func (m *metrics) requested(policy v1.PullPolicy, present, required string) {
	m.requests.WithLabelValues(strings.ToLower(string(policy)), present, required).Inc()
}
