// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"errors"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func requesting(class v1.PodQOSClass, cpus ...string) *v1.Pod {
	pod := &v1.Pod{Status: v1.PodStatus{QOSClass: class}}
	for _, cpu := range cpus {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)}},
		})
	}
	return pod
}

func TestBurstablePodsWeighWhatTheyRequest(t *testing.T) {
	for _, tt := range []struct {
		pods []*v1.Pod
		want int64
	}{
		{nil, 2},
		{[]*v1.Pod{requesting(v1.PodQOSGuaranteed, "4"), requesting(v1.PodQOSBestEffort)}, 2},
		{[]*v1.Pod{requesting(v1.PodQOSBurstable, "1", "500m"), requesting(v1.PodQOSGuaranteed, "4"), requesting(v1.PodQOSBurstable, "250m")}, 1792},
	} {
		if got := burstableShares(tt.pods); got != tt.want {
			t.Errorf("%d pods: %d, want %d", len(tt.pods), got, tt.want)
		}
	}
}

func TestTiersAreToldWhenTheyChangeAndEachMinute(t *testing.T) {
	var told tiers
	now := time.Now()
	step := func(what string, after time.Duration, shares int64, want bool, err error) {
		t.Helper()
		now = now.Add(after)
		if got := told.begin(shares, now); got != want {
			t.Errorf("%s: %v", what, got)
		} else if got {
			if told.begin(shares+1, now) {
				t.Errorf("%s: a second call at once", what)
			}
			told.end(shares, now, err)
		}
	}
	step("the first time", 0, 2, true, nil)
	step("the same", time.Second, 2, false, nil)
	step("a change", time.Second, 3, true, errors.New("busy"))
	step("after an error", time.Second, 3, true, nil)
	step("a minute later", time.Minute, 3, true, errdefs.ErrNotImplemented)
	step("a host that cannot", 59*time.Second, 3, false, nil)
}
