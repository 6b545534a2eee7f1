// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// restartNumber is the number the next container of a name is created with. It never falls (whatever the runtime
// forgot, the API's status knows) and never names a log file that exists.
//
// newest is the newest record of the name, nil if there is none. A record that was created and never started keeps its
// number. published is the restart count in the API's status. logs is one more than the highest number of a log file;
// it is only needed, and may be zero otherwise, when logsNeeded says so.
func restartNumber(newest *cri.ContainerStatus, published, logs int32) int32 {
	n := max(published, logs)
	switch {
	case newest == nil:
		return n
	case newest.State == cri.ContainerCreated:
		return max(n, newest.RestartCount)
	default:
		return max(n, newest.RestartCount+1)
	}
}

// logsNeeded says whether the log files have to be looked at, because the runtime has lost records.
func logsNeeded(newest *cri.ContainerStatus, published int32) bool {
	return newest == nil || newest.RestartCount < published
}

// publishedRestarts is the container's restart count in the API's status, 0 if it has none.
func publishedRestarts(pod *v1.Pod, container string) int32 {
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			if statuses[i].Name == container {
				return statuses[i].RestartCount
			}
		}
	}
	return 0
}
