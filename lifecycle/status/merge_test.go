// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

var (
	then  = metav1.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	later = metav1.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)
)

func cond(t v1.PodConditionType, status v1.ConditionStatus, reason string, at metav1.Time) v1.PodCondition {
	return v1.PodCondition{Type: t, Status: status, Reason: reason, LastTransitionTime: at}
}

func TestMerge(t *testing.T) {
	foreign := cond("example.com/x", v1.ConditionTrue, "", then)
	for _, tt := range []struct {
		desc         string
		api, ours    v1.PodStatus
		couldRun     bool
		want         v1.PodStatus
		wantWithheld bool
	}{
		{
			desc: "what is not ours stays",
			api: v1.PodStatus{
				Phase: v1.PodPending, NominatedNodeName: "n", ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "c"}},
				Conditions: []v1.PodCondition{foreign, cond(v1.PodReady, v1.ConditionFalse, "", then)},
			},
			ours: v1.PodStatus{
				Phase: v1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: list(running("a")),
				Conditions: []v1.PodCondition{
					cond("example.com/x", v1.ConditionFalse, "stale copy", then), cond(v1.PodReady, v1.ConditionTrue, "", later),
				},
			},
			couldRun: true,
			want: v1.PodStatus{
				Phase: v1.PodRunning, PodIP: "10.0.0.1", ContainerStatuses: list(running("a")),
				NominatedNodeName: "n", ResourceClaimStatuses: []v1.PodResourceClaimStatus{{Name: "c"}},
				Conditions: []v1.PodCondition{foreign, cond(v1.PodReady, v1.ConditionTrue, "", later)},
			},
		},
		{
			desc:     "a terminal phase waits for the last container",
			api:      v1.PodStatus{Phase: v1.PodRunning, Reason: "r", Message: "m"},
			ours:     v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "disk", Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "TerminationByKubelet", then)}},
			couldRun: true, wantWithheld: true,
			want: v1.PodStatus{Phase: v1.PodRunning, Reason: "r", Message: "m"},
		},
		{
			desc: "and is told when nothing runs, with the disruption",
			api:  v1.PodStatus{Phase: v1.PodRunning},
			ours: v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "disk", Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "TerminationByKubelet", then)}},
			want: v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Message: "disk", Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "TerminationByKubelet", later)}},
		},
		{
			desc: "the disruption another told of is kept while the pod lives",
			api:  v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "PreemptionByScheduler", then)}},
			ours: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "ours", then)}},
			want: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "PreemptionByScheduler", then)}},
		},
		{
			desc:     "nothing is withheld and no disruption told once the API has a terminal phase",
			api:      v1.PodStatus{Phase: v1.PodFailed, Reason: "r", Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "PreemptionByScheduler", then)}},
			ours:     v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "ours", then)}},
			couldRun: true,
			want:     v1.PodStatus{Phase: v1.PodFailed, Reason: "Evicted", Conditions: []v1.PodCondition{cond(v1.DisruptionTarget, v1.ConditionTrue, "PreemptionByScheduler", then)}},
		},
		{
			desc: "no terminal pod is ready",
			api:  v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionTrue, "", then)}},
			ours: v1.PodStatus{Phase: v1.PodSucceeded, Conditions: []v1.PodCondition{
				cond(v1.PodReady, v1.ConditionTrue, "", then), cond(v1.ContainersReady, v1.ConditionTrue, "", then),
			}},
			want: v1.PodStatus{Phase: v1.PodSucceeded, Conditions: []v1.PodCondition{
				cond(v1.PodReady, v1.ConditionFalse, "PodCompleted", later), cond(v1.ContainersReady, v1.ConditionFalse, "PodCompleted", later),
			}},
		},
		{
			desc: "the API's terminal phase is final",
			api:  v1.PodStatus{Phase: v1.PodFailed, Reason: "NodeLost", Message: "m"},
			ours: v1.PodStatus{Phase: v1.PodSucceeded, Reason: "r"},
			want: v1.PodStatus{Phase: v1.PodFailed, Reason: "NodeLost", Message: "m"},
		},
		{
			desc: "the observed generation does not fall",
			api:  v1.PodStatus{ObservedGeneration: 7},
			ours: v1.PodStatus{ObservedGeneration: 6},
			want: v1.PodStatus{ObservedGeneration: 7},
		},
		{
			desc: "the time of a condition that was told before is not touched",
			api:  v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionTrue, "", then)}},
			ours: v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionTrue, "", later)}},
			want: v1.PodStatus{Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionTrue, "", then)}},
		},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			api, ours := tt.api.DeepCopy(), tt.ours.DeepCopy()
			got, withheld := merge(api, ours, tt.couldRun, later.Time)
			if d := cmp.Diff(&tt.want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if withheld != tt.wantWithheld {
				t.Errorf("withheld = %v, want %v", withheld, tt.wantWithheld)
			}
			if d := cmp.Diff(&tt.api, api) + cmp.Diff(&tt.ours, ours); d != "" {
				t.Errorf("an argument was changed:\n%s", d)
			}
		})
	}
}

func TestPatchIsEmptyWhenNothingDiffers(t *testing.T) {
	api := &v1.PodStatus{Phase: v1.PodRunning, StartTime: &then, ContainerStatuses: list(running("a"))}
	got, err := patch(api, api.DeepCopy())
	if err != nil || got != nil {
		t.Errorf("patch() = %s, %v, want nothing", got, err)
	}
}

// TestPatchLeavesWhatWasWrittenMeanwhile applies a patch to an object that another writer changed after it was read.
func TestPatchLeavesWhatWasWrittenMeanwhile(t *testing.T) {
	read := &v1.PodStatus{
		Phase: v1.PodPending, PodIPs: []v1.PodIP{{IP: "10.0.0.1"}},
		Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionFalse, "", then), cond(v1.PodScheduled, v1.ConditionTrue, "", then)},
	}
	ours := &v1.PodStatus{
		Phase: v1.PodRunning, PodIPs: []v1.PodIP{{IP: "10.0.0.2"}}, ContainerStatuses: list(running("a")),
		Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionTrue, "", later)},
	}
	merged, _ := merge(read, ours, true, later.Time)
	diff, err := patch(read, merged)
	if err != nil {
		t.Fatal(err)
	}
	meanwhile := read.DeepCopy()
	meanwhile.NominatedNodeName = "n"
	meanwhile.Conditions = append(meanwhile.Conditions, cond("example.com/x", v1.ConditionTrue, "", then))
	before, err := json.Marshal(meanwhile)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strategicpatch.StrategicMergePatch(before, diff, v1.PodStatus{})
	if err != nil {
		t.Fatal(err)
	}
	var got v1.PodStatus
	if err := json.Unmarshal(after, &got); err != nil {
		t.Fatal(err)
	}
	if got.NominatedNodeName != "n" || condition(got.Conditions, "example.com/x") == nil {
		t.Errorf("what another writer wrote is gone: %+v", got)
	}
	if got.Phase != v1.PodRunning || condition(got.Conditions, v1.PodReady).Status != v1.ConditionTrue ||
		condition(got.Conditions, v1.PodScheduled) != nil {
		t.Errorf("our part was not written: %+v", got)
	}
	if d := cmp.Diff([]v1.PodIP{{IP: "10.0.0.2"}}, got.PodIPs); d != "" {
		t.Errorf("podIPs -want +got:\n%s", d)
	}
}
