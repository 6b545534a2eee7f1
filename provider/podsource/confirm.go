// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsource

import (
	"context"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
)

const (
	// confirmPeriod is the pause between questions for pods that a list says are gone and that are not.
	confirmPeriod = 10 * time.Second
	// confirmTimeout bounds one question.
	confirmTimeout = 10 * time.Second
)

// confirm asks for each doubtful pod until it is known to be gone or shows up again.
func (s *Source) confirm(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.store.doubt:
		}
		for doubts := s.store.doubts(); len(doubts) > 0; doubts = s.store.doubts() {
			s.logger.Warn("A list lacks several pods at once, asking for each before it counts as gone", "pods", len(doubts))
			for _, pod := range doubts {
				if s.gone(ctx, pod) {
					s.store.confirm(pod.UID)
				}
			}
			if len(s.store.doubts()) == 0 {
				break
			}
			timer := s.clock.NewTimer(confirmPeriod)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C():
			}
		}
	}
}

// gone says whether the API itself has no pod of this UID.
func (s *Source) gone(ctx context.Context, pod *v1.Pod) bool {
	ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
	defer cancel()
	live, err := s.Live(ctx, pod.Namespace, pod.Name)
	if err != nil {
		return errdefs.IsNotFound(err)
	}
	return live.UID != pod.UID
}
