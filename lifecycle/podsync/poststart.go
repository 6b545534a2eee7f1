// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// HookRunner runs hooks. The run belongs to the host: the same request again joins it or returns its recorded result.
// FailedPrecondition and NotFound say that the container does not run any more and the hook was not begun, Unavailable
// that no answer came.
type HookRunner interface {
	RunHook(ctx context.Context, req host.HookRequest) (*host.HookResult, error)
}

var _ HookRunner = host.HookRunner(nil)

// hookMemory is what is known of postStart hooks. It may be lost: the API's status and the host's records stand behind it.
type hookMemory struct {
	mu sync.Mutex
	// pods hold, by container id, whether the hook ended well.
	pods map[types.UID]map[string]bool
}

func newHookMemory() *hookMemory { return &hookMemory{pods: map[types.UID]map[string]bool{}} }

// end notes how the hook of a container ended and returns whether that is news.
func (m *hookMemory) end(uid types.UID, id string, well bool) (news bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pods[uid] == nil {
		m.pods[uid] = map[string]bool{}
	}
	_, known := m.pods[uid][id]
	m.pods[uid][id] = well
	return !known
}

func (m *hookMemory) endedWell(uid types.UID, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[uid][id]
}

// keep drops what is known of containers that the observation does not show.
func (m *hookMemory) keep(uid types.UID, status *cri.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.pods[uid]) == 0 {
		return
	}
	seen := make(map[string]bool, len(status.Containers))
	for i := range status.Containers {
		seen[status.Containers[i].ID] = true
	}
	for id := range m.pods[uid] {
		if !seen[id] {
			delete(m.pods[uid], id)
		}
	}
}

func (m *hookMemory) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pods, uid)
}

// AwaitsPostStart says whether the running container's postStart hook is not known to have ended well. Such a container
// has not started yet for anybody outside: it is to be shown as waiting, and not to be probed. What the API already shows
// as running is past its hook, because that is shown only afterwards.
func (s *Syncer) AwaitsPostStart(pod *v1.Pod, cs *cri.ContainerStatus) bool {
	c, _ := podrules.Find(pod, cs.Name)
	return c != nil && postStartOf(c) != nil && cs.State == cri.ContainerRunning &&
		!s.hooks.endedWell(pod.UID, cs.ID) && !publishedAsRunning(pod, cs)
}

func postStartOf(c *v1.Container) *v1.LifecycleHandler {
	if c.Lifecycle == nil {
		return nil
	}
	return c.Lifecycle.PostStart
}

// publishedAsRunning says whether the API's status shows the very container as running.
func publishedAsRunning(pod *v1.Pod, cs *cri.ContainerStatus) bool {
	for _, statuses := range [][]v1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			status := &statuses[i]
			if status.Name == cs.Name && status.State.Running != nil {
				return status.ContainerID == cri.APIContainerID(cs.ID)
			}
		}
	}
	return false
}

// awaitHooks runs the hooks of containers that an earlier sync started, or joins them.
func (p *pass) awaitHooks(ctx context.Context) error {
	for _, record := range p.actions.ToHook {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, kind := podrules.Find(p.pod, record.Name)
		err := p.postStart(ctx, c, record, typeOf(kind))
		if err == nil {
			// The runtime shows nothing new, so nothing but this makes the pod's status show it.
			err = &retryError{until: p.opts.Clock.Now(), why: fmt.Sprintf("the postStart hook of container %q ended", c.Name)}
		}
		p.result.add(err)
	}
	return nil
}

// postStart runs the container's postStart hook, if it has one, and returns when that ended. A container whose hook failed
// is killed. A cancelled ctx ends the wait, not the hook.
func (p *pass) postStart(ctx context.Context, c *v1.Container, record *cri.ContainerStatus, containerType string) error {
	if postStartOf(c) == nil {
		return nil
	}
	p.result.Acted = true // as long as it took, much may have changed
	req, err := podrules.HookRequest(p.pod, c, host.HookPostStart, record.ID, p.podIP())
	if err != nil {
		return p.postStartFailed(ctx, c, record, containerType, err)
	}
	result, err := p.opts.Hooks.RunHook(ctx, req)
	switch {
	case err != nil && untold(ctx, err):
		return fmt.Errorf("running the postStart hook of container %q: %w", c.Name, err)
	case err != nil:
		return p.postStartFailed(ctx, c, record, containerType, err)
	}
	if err := hookFailure(result); err != nil {
		return p.postStartFailed(ctx, c, record, containerType, err)
	}
	if p.hooks.end(p.pod.UID, record.ID, true) && result.HTTPFallback {
		reason, message := podrules.HTTPFallback(req.HTTPGet)
		p.containerEvent(c, v1.EventTypeWarning, reason, message)
	}
	p.reasons.clear(p.pod.UID, c.Name)
	return nil
}

// podIP is the pod's first address in the sandbox that containers are started in.
func (p *pass) podIP() string {
	if len(p.ips) > 0 {
		return p.ips[0]
	}
	return ""
}

// hookFailure returns why the hook failed, nil if it did not. An interrupted one may have done half of its work.
func hookFailure(r *host.HookResult) error {
	switch {
	case r.Interrupted:
		return errors.New("the hook was interrupted and its end is not known")
	case r.TimedOut:
		return errors.New("the hook was killed when its time was up")
	case r.ExitCode != 0:
		return fmt.Errorf("the hook ended with exit code %d: %s", r.ExitCode, strings.TrimSpace(r.Output))
	default:
		return nil
	}
}

// postStartFailed tells of the failure once and kills the container, unless it is gone already.
func (p *pass) postStartFailed(
	ctx context.Context, c *v1.Container, record *cri.ContainerStatus, containerType string, cause error,
) error {
	if p.hooks.end(p.pod.UID, record.ID, false) {
		p.containerEvent(c, v1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
		p.metrics.failed.WithLabelValues(containerType, reasonPostStart).Inc()
	}
	err := p.waits(c, waiting{reasonPostStart, withoutID(cause, record.ID, c.Name).Error()}, cause)
	if errdefs.IsNotFound(cause) || errdefs.IsFailedPrecondition(cause) {
		return err
	}
	return errors.Join(err, p.killOne(ctx, ContainerKill{
		Container: record, Reason: KillPostStartFailed, Message: "FailedPostStartHook",
	}))
}
