// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
)

func TestPullThatTakesMinutesIsToldOfWhileItDoes(t *testing.T) {
	for _, tc := range []struct {
		takes time.Duration
		want  []string
	}{
		{takes: 59 * time.Second},
		{takes: 2*time.Minute + time.Second, want: []string{
			`spec.containers{web} Normal Pulling Still pulling image "app" after 1m0s`,
			`spec.containers{web} Normal Pulling Still pulling image "app" after 2m0s`,
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			recorder := &events{}
			m := New(Options{Records: newFakeRecords(), Clock: clock.RealClock{}, Recorder: recorder, Images: &fakeImages{
				pull: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
					time.Sleep(tc.takes)
					return "sha256:app", nil
				},
			}})
			pod := testPod("1", "app", v1.PullAlways)
			if _, err := m.EnsureImage(t.Context(), pod, &pod.Spec.Containers[0], nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour) // nothing is left that tells anything
			all := recorder.take()
			var between []string
			between = append(between, all[1:len(all)-1]...)
			if diff := cmp.Diff(tc.want, between); diff != "" {
				t.Errorf("events of a pull of %v between the first and the last (-want +got):\n%s", tc.takes, diff)
			}
		})
	}
}
