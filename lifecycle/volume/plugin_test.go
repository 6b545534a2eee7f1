// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// TestWhatBecomesOfAVolumeForAGroupIsTold with the kubelet's events.
func TestWhatBecomesOfAVolumeForAGroupIsTold(t *testing.T) {
	const slow = "Warning VolumePermissionChangeInProgress Setting volume ownership for u/volumes/kubernetes.io~local-volume/disk-1 " +
		"is taking longer than expected, consider using OnRootMismatch - " +
		"https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods"
	for name, tt := range map[string]struct {
		takes time.Duration
		other *int64
		want  []string
	}{
		"at once":            {takes: 29 * time.Second},
		"slowly":             {takes: 80 * time.Second, want: []string{slow}},
		"very slowly":        {takes: 100 * time.Second, want: []string{slow, slow}},
		"of another's group": {other: ptr.To[int64](8), want: []string{"Warning AlreadyMountedVolume The requested fsGroup is 7, but the volume disk-1 has GID 8. The volume may not be shareable."}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pod, objects := claimed(withGroup)
				m := newManager(&fakeDirs{busy: func() { time.Sleep(tt.takes) }, otherGroup: tt.other}, objects)
				recorder := record.NewFakeRecorder(10)
				m.plugins[0] = existing{m.opts.Dirs, recorder, m.opts.Clock}
				if err := m.Prepare(t.Context(), pod, false); err != nil {
					t.Fatal(err)
				}
				close(recorder.Events)
				var got []string
				for event := range recorder.Events {
					got = append(got, event)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}
