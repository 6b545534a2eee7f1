// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// terminated is how the container of a record ended. known is what was said of the end of the same instance before: a
// runtime that lost the exit code in the meantime does not overwrite it, nor does a message get lost with its file.
func (g *generation) terminated(r *cri.ContainerStatus, known *v1.ContainerStateTerminated) *v1.ContainerStateTerminated {
	t := &v1.ContainerStateTerminated{
		ExitCode:    r.ExitCode,
		Reason:      r.Reason,
		Message:     r.Message,
		StartedAt:   apiTime(r.StartedAt),
		FinishedAt:  apiTime(r.FinishedAt),
		ContainerID: containerID(r),
	}
	if known != nil && isGuess(t) && !isGuess(known) {
		return known.DeepCopy()
	}
	var left string
	if g.in.TerminationMessage != nil {
		left = g.in.TerminationMessage(r)
	}
	t.Message = joinMessages(r.Message, left)
	// What was told is the whole message already, and is all there is if the file is gone.
	if known != nil && known.Message != "" && !isGuess(known) && (left == "" || left == known.Message) {
		t.Message = known.Message
	}
	return t
}

// lastEnd is how the instance before the present one ended. It comes from the second newest record, or from what was
// known before that record was removed.
func (g *generation) lastEnd(st, old *v1.ContainerStatus, second *cri.ContainerStatus) *v1.ContainerStateTerminated {
	var last *v1.ContainerStateTerminated
	if second != nil && second.State == cri.ContainerExited {
		last = g.terminated(second, knownEnd(old, containerID(second)))
	}
	if old == nil {
		return last
	}
	if ended := old.LastTerminationState.Terminated; ended != nil && !isSame(ended, st.State.Terminated) {
		last = laterEnd(last, ended)
	}
	if ended := old.State.Terminated; ended != nil && old.ContainerID != st.ContainerID {
		last = laterEnd(last, ended)
	}
	if last == nil && old.State.Running != nil && old.ContainerID != st.ContainerID {
		last = guess(messageNotFoundDeleted, old.ContainerID)
	}
	return last.DeepCopy()
}

// knownEnd returns what was said of the end of the given instance, nil if nothing was.
func knownEnd(old *v1.ContainerStatus, id string) *v1.ContainerStateTerminated {
	if old == nil {
		return nil
	}
	for _, t := range []*v1.ContainerStateTerminated{old.State.Terminated, old.LastTerminationState.Terminated} {
		if t != nil && t.ContainerID == id {
			return t
		}
	}
	return nil
}

// ownEnd returns how the instance that a status is about ended, nil if it did not or if nobody knows. One that waits to
// start again has its end in the last state.
func ownEnd(st *v1.ContainerStatus) *v1.ContainerStateTerminated {
	if st.State.Terminated != nil {
		return st.State.Terminated
	}
	last := st.LastTerminationState.Terminated
	if st.State.Waiting != nil && last != nil && last.ContainerID != "" && last.ContainerID == st.ContainerID {
		return last
	}
	return nil
}

// settle shows a container that waited to start again, and now will not, as what it is: ended.
func settle(st *v1.ContainerStatus) {
	if st.State.Waiting == nil {
		return
	}
	if ended := ownEnd(st); ended != nil {
		st.State = v1.ContainerState{Terminated: ended}
		st.LastTerminationState = v1.ContainerState{}
	}
}

// laterEnd returns the later of two ends, either of which may be nil. Our own guess has no time and gives way.
func laterEnd(a, b *v1.ContainerStateTerminated) *v1.ContainerStateTerminated {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case b.FinishedAt.After(a.FinishedAt.Time):
		return b
	default:
		return a
	}
}

func isSame(a, b *v1.ContainerStateTerminated) bool {
	return a != nil && b != nil && a.ContainerID != "" && a.ContainerID == b.ContainerID
}

// guess is the end of a container whose exit code nobody saw.
func guess(message, id string) *v1.ContainerStateTerminated {
	return &v1.ContainerStateTerminated{
		Reason: reasonStatusUnknown, Message: message, ExitCode: exitCodeUnknown, ContainerID: id,
	}
}

// isGuess says whether an exit code is not what the process ended with, but what we or the runtime made up for it.
func isGuess(t *v1.ContainerStateTerminated) bool {
	return t != nil && (t.Reason == reasonStatusUnknown ||
		t.Reason == runtimeReasonUnknown && t.ExitCode == runtimeExitCodeUnknown)
}

// apiTime converts a time to what the API keeps of it: seconds.
func apiTime(t time.Time) metav1.Time {
	if t.IsZero() {
		return metav1.Time{}
	}
	return metav1.NewTime(t.Truncate(time.Second))
}
