// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"errors"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/tombolo-dev/tombolo/provider/machine"
)

// ReasonHostLinkDown is the reason of the Ready condition while the host does not answer. Other reasons are the kubelet's.
const ReasonHostLinkDown = "HostLinkDown"

// wording is what a condition says, and which event tells of its change.
type wording struct{ reason, message, event string }

// pressureWordings are the kubelet's, for a condition that holds and one that does not, in the kubelet's order.
var pressureWordings = []struct {
	kind    v1.NodeConditionType
	yes, no wording
}{
	{
		v1.NodeMemoryPressure,
		wording{"KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"},
		wording{"KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"},
	},
	{
		v1.NodeDiskPressure,
		wording{"KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"},
		wording{"KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"},
	},
	{
		v1.NodePIDPressure,
		wording{"KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"},
		wording{"KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"},
	},
}

// conditions are what the node says of itself, Ready last as in the kubelet. Times of transition are kept from prior
// where the status is the same; so is the pressure of a machine that has not told anything yet.
func conditions(s *machine.State, capacity v1.ResourceList, engine error, p *pressures, prior []v1.NodeCondition, now time.Time) []v1.NodeCondition {
	var out []v1.NodeCondition
	for _, w := range pressureWordings {
		status, words := v1.ConditionFalse, w.no
		old := condition(prior, w.kind)
		if p.holds(w.kind, now) || (s.Facts == nil && old != nil && old.Status == v1.ConditionTrue) {
			status, words = v1.ConditionTrue, w.yes
		}
		out = append(out, v1.NodeCondition{Type: w.kind, Status: status, Reason: words.reason, Message: words.message})
	}
	out = append(out, ready(s, capacity, engine))
	for i := range out {
		out[i].LastHeartbeatTime = metav1.NewTime(now)
		out[i].LastTransitionTime = metav1.NewTime(now)
		if old := condition(prior, out[i].Type); old != nil && old.Status == out[i].Status && !old.LastTransitionTime.IsZero() {
			out[i].LastTransitionTime = old.LastTransitionTime
		}
	}
	return out
}

// ready is the Ready condition without times. A link that is down hides everything else: nothing else is known then.
func ready(s *machine.State, capacity v1.ResourceList, engine error) v1.NodeCondition {
	if err := s.LinkError(); err != nil {
		return v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse, Reason: ReasonHostLinkDown, Message: err.Error()}
	}
	problems := []error{s.RuntimeError(), engine, s.NetworkError(), missing(capacity)}
	if err := utilerrors.NewAggregate(problems); err != nil {
		return v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse, Reason: "KubeletNotReady", Message: err.Error()}
	}
	return v1.NodeCondition{
		Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
	}
}

// missing names the resources without a capacity.
func missing(capacity v1.ResourceList) error {
	var names []string
	for _, name := range resources {
		if _, ok := capacity[name]; !ok {
			names = append(names, string(name))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return errors.New("missing node capacity for resources: " + strings.Join(names, ", "))
}

// condition finds a condition by its type, nil if it is not there.
func condition(list []v1.NodeCondition, kind v1.NodeConditionType) *v1.NodeCondition {
	for i := range list {
		if list[i].Type == kind {
			return &list[i]
		}
	}
	return nil
}

// transitions are the reasons of the events that tell how conditions changed, in the order of the conditions.
func transitions(before, after []v1.NodeCondition) []string {
	var out []string
	changed := func(kind v1.NodeConditionType) (holds, changed bool) {
		was, is := condition(before, kind), condition(after, kind)
		return is.Status == v1.ConditionTrue, was == nil || was.Status != is.Status
	}
	for _, w := range pressureWordings {
		if holds, ok := changed(w.kind); ok {
			words := w.no
			if holds {
				words = w.yes
			}
			out = append(out, words.event)
		}
	}
	if holds, ok := changed(v1.NodeReady); ok {
		if holds {
			return append(out, "NodeReady")
		}
		return append(out, "NodeNotReady")
	}
	return out
}
