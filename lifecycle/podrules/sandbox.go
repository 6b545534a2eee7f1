// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// Why a pod needs a new sandbox. They are the kubelet's messages of the condition PodReadyToStartContainers.
const (
	MessageNoSandbox         = "no pod sandbox exists"
	MessageSeveralSandboxes  = "multiple pod sandboxes are ready and need to be reconciled"
	MessageSandboxNotReady   = "pod sandbox is not ready"
	MessageNetworkChanged    = "network namespace mode changed and sandbox needs to be recreated"
	MessageSandboxHasNoPodIP = "pod sandbox has no IP address"
)

// SandboxNeed says whether a pod needs a new sandbox.
type SandboxNeed struct {
	// New is set when a new sandbox is needed; Message then tells why.
	New     bool
	Message string
	// Attempt is the attempt number of the sandbox to make, or that of the present one if it will do.
	Attempt uint32
	// SandboxID is the newest sandbox, "" if the pod has none.
	SandboxID string
}

// SandboxNeedOf compares the pod with its sandboxes in the runtime. A nil status is one without sandboxes.
func SandboxNeedOf(pod *v1.Pod, status *cri.PodStatus) SandboxNeed {
	if status == nil || len(status.Sandboxes) == 0 {
		return SandboxNeed{New: true, Message: MessageNoSandbox}
	}
	newest := &status.Sandboxes[0]
	need := SandboxNeed{New: true, Attempt: newest.Attempt + 1, SandboxID: newest.ID}
	switch {
	case readySandboxes(status) > 1:
		need.Message = MessageSeveralSandboxes
	case !newest.Ready:
		need.Message = MessageSandboxNotReady
	case newest.HostNetwork != pod.Spec.HostNetwork:
		need.Message = MessageNetworkChanged
	case !pod.Spec.HostNetwork && newest.HasNetwork && len(newest.IPs) == 0:
		need.Message = MessageSandboxHasNoPodIP
	default:
		need.New, need.Attempt = false, newest.Attempt
	}
	return need
}

// PastInit says whether the pod's initialisation is over in the ready sandbox: any regular container has a record in
// it. Without a ready sandbox there is nothing to be past.
func PastInit(pod *v1.Pod, status *cri.PodStatus) bool {
	sandbox := status.ReadySandbox()
	return sandbox != nil && hasRegularRecord(pod, status, sandbox.ID)
}

// RegularEverCreated says whether any regular container has a record, in whatever sandbox. It proves that the regular
// init containers once were done.
func RegularEverCreated(pod *v1.Pod, status *cri.PodStatus) bool {
	return status != nil && hasRegularRecord(pod, status, "")
}

// hasRegularRecord looks for a record of a regular container, in the given sandbox if it is not "".
func hasRegularRecord(pod *v1.Pod, status *cri.PodStatus, sandboxID string) bool {
	for i := range status.Containers {
		record := &status.Containers[i]
		if sandboxID != "" && record.SandboxID != sandboxID {
			continue
		}
		for j := range pod.Spec.Containers {
			if pod.Spec.Containers[j].Name == record.Name {
				return true
			}
		}
	}
	return false
}

func readySandboxes(status *cri.PodStatus) int {
	n := 0
	for i := range status.Sandboxes {
		if status.Sandboxes[i].Ready {
			n++
		}
	}
	return n
}
