// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pleg

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
)

// lateReason is when a container that was killed is looked at once more: the runtime may learn only after its end that the
// kernel killed it for want of memory, which no list shows.
const lateReason = time.Second

const (
	// exitKilled is the exit code of what SIGKILL ended, reasonOOMKilled the runtime's reason if the kernel sent it for want
	// of memory.
	exitKilled      = 137
	reasonOOMKilled = "OOMKilled"
)

// killedSince says whether a container was killed since the given states, as far as is known for no particular reason.
// Without states nobody saw when it was.
func killedSince(before map[string]state, status *cri.PodStatus) bool {
	if before == nil {
		return false
	}
	for i := range status.Containers {
		cs := &status.Containers[i]
		if cs.State == cri.ContainerExited && cs.ExitCode == exitKilled && cs.Reason != reasonOOMKilled && before[cs.ID] != exited {
			return true
		}
	}
	return false
}

// inspectLater asks for one more inspection of the pod.
func (l *loop) inspectLater(ctx context.Context, uid types.UID) {
	l.tasks.Go(func() {
		timer := l.p.o.Clock.NewTimer(lateReason)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C():
			l.p.RequestInspection(uid)
		}
	})
}
