// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
)

// Values of the label container_type, the kubelet's.
const (
	typeInit      = "init_container"
	typeRegular   = "container"
	typeEphemeral = "ephemeral_container"
)

type metrics struct {
	syncDuration prometheus.Histogram
	apiErrors    *prometheus.CounterVec
	refused      prometheus.Counter
	terminated   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		syncDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_pod_status_sync_duration_seconds",
			Help: "Time in seconds from the first change of a pod's status that the API does not have yet until it has accepted " +
				"the newest.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 20, 30, 45, 60},
		}),
		apiErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tombolo_pod_status_api_errors_total",
			Help: "Calls for a pod's status that failed and will be repeated, by operation (get, patch, delete). A pod that " +
				"is gone is not a failure.",
		}, []string{"operation"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "tombolo_pod_status_refused_total",
			Help: "Statuses that were not kept because a container that ended for good would have come back to life.",
		}),
		terminated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_terminated_containers_total",
			Help: "Containers seen to have ended, by type, exit code and reason.",
		}, []string{"container_type", "exit_code", "reason"}),
	}
	if reg != nil {
		reg.MustRegister(m.syncDuration, m.apiErrors, m.refused, m.terminated)
	}
	return m
}

// countEnds counts the containers that have ended in the new status and had not in the old one.
func (m *metrics) countEnds(old, status *v1.PodStatus) {
	for _, lists := range []struct {
		containerType string
		old, status   []v1.ContainerStatus
	}{
		{typeInit, old.InitContainerStatuses, status.InitContainerStatuses},
		{typeRegular, old.ContainerStatuses, status.ContainerStatuses},
		{typeEphemeral, old.EphemeralContainerStatuses, status.EphemeralContainerStatuses},
	} {
		for i := range lists.status {
			ended := lists.status[i].State.Terminated
			if ended == nil {
				continue
			}
			if before := find(lists.old, lists.status[i].Name); before != nil && before.State.Terminated != nil {
				continue
			}
			m.terminated.WithLabelValues(lists.containerType, strconv.Itoa(int(ended.ExitCode)), ended.Reason).Inc()
		}
	}
}
