// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"fmt"
	"math"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// ending tells others of the end of a container.
type ending struct {
	container string
	// over is closed when the stop of the container returned; err is then how.
	over chan struct{}
	err  error
}

func newEnding(container string) *ending {
	return &ending{container: container, over: make(chan struct{})}
}

func (e *ending) set(err error) {
	e.err = err
	close(e.over)
}

// unordered is the rank of containers that neither wait nor are waited for.
const unordered = -1

// rank places a container in the order of stop signals: sidecars by their place in the spec, regular containers behind
// them, and nobody else. A container waits for those of higher ranks.
func rank(pod *v1.Pod, container string) int {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.Name == container && podrules.IsSidecar(c) {
			return i
		}
	}
	if _, kind := podrules.Find(pod, container); kind == podrules.RegularContainer {
		return math.MaxInt
	}
	return unordered
}

// predecessors tells, for each of the containers to stop, the indices of those whose end its stop signal waits for: a
// sidecar serves the regular containers and the sidecars behind it in the spec for as long as they run. What does not
// run is not among the victims, so it holds nobody up.
func predecessors(pod *v1.Pod, victims []*cri.ContainerStatus) [][]int {
	ranks := make([]int, len(victims))
	for i, cs := range victims {
		ranks[i] = rank(pod, cs.Name)
	}
	out := make([][]int, len(victims))
	for i, mine := range ranks {
		for j, other := range ranks {
			if mine != unordered && other > mine {
				out[i] = append(out[i], j)
			}
		}
	}
	return out
}

// awaitTurn returns nil when the victim may get its stop signal: what it waits for has ended, or the budget has. Where
// a stop failed, the next call tries that again, and until then it is not the victim's turn.
func (t *Terminator) awaitTurn(ctx context.Context, v victim, deadline time.Time) error {
	left := deadline.Sub(t.clock.Now())
	if len(v.after) == 0 || left <= 0 {
		return nil
	}
	timer := t.clock.NewTimer(left)
	defer timer.Stop()
	for _, other := range v.after {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting to stop container %q after %q: %w", v.container.Name, other.container, ctx.Err())
		case <-timer.C():
			return nil
		case <-other.over:
		}
		if other.err != nil && t.clock.Now().Before(deadline) {
			return fmt.Errorf("container %q is stopped after %q: %w", v.container.Name, other.container, other.err)
		}
	}
	return nil
}
