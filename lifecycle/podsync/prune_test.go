// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func TestPrunableAreOldEndedInitContainersOnly(t *testing.T) {
	for _, tc := range []struct {
		name    string
		records []string
		want    []string
	}{
		{"nothing", nil, nil},
		{"the newest stays", []string{"one@0 exit0"}, nil},
		{"older ones go", []string{"one@1 exit0", "one@0 exit1", "one@0 exit1"}, []string{"one#1", "one#2"}},
		{"the newest ended stays beside one that runs", []string{"one@0 running", "one@0 exit1", "one@0 exit1"}, []string{"one#2"}},
		{"what may run stays", []string{"one@1 exit0", "one@0 running", "one@0 unknown"}, nil},
		{"what never ran stays", []string{"one@1 exit0", "one@0 created"}, nil},
		{"each name by itself", []string{"two@0 exit0", "one@0 exit0", "two@0 exit1"}, []string{"two#2"}},
		{"regular containers stay", []string{"web@0 exit1", "web@0 exit1"}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod(v1.RestartPolicyAlways, "one,two|web")
			var got []string
			for _, record := range prunable(pod, testStatus(t, pod, "1+ 0-", tc.records...)) {
				got = append(got, record.ID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
