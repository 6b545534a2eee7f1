// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podref

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestContainerNamesTheFieldOfEachKindOfContainer(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "7"},
		Spec: v1.PodSpec{
			InitContainers:      []v1.Container{{Name: "setup"}},
			Containers:          []v1.Container{{Name: "web"}},
			EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}},
		},
	}
	for name, want := range map[string]string{
		"web":   "spec.containers{web}",
		"setup": "spec.initContainers{setup}",
		"debug": "spec.ephemeralContainers{debug}",
		"gone":  "",
	} {
		got := Container(pod, name)
		want := &v1.ObjectReference{
			Kind: "Pod", APIVersion: "v1", Namespace: "ns", Name: "p", UID: "u", ResourceVersion: "7", FieldPath: want,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Container(%q) (-want +got):\n%s", name, diff)
		}
	}
}
