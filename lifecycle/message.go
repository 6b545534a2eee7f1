// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// Limits of a termination message, the kubelet's.
const (
	messageFileBytes = 4096
	messageLogBytes  = 2048
	messageLogLines  = 80
)

const (
	// messageTimeout bounds reading the messages of one observation, so that a file that cannot be read holds its pod up no
	// longer than that.
	messageTimeout = 10 * time.Second
	// messageTries is how often a message is waited for that does not come in time. Then the container's end is told
	// without it.
	messageTries = 3
)

// messages keeps the termination message of every container that ended and that the runtime still has. They are read once,
// while the container's file is still there, so that computing a status stays a pure function.
type messages struct {
	logs host.LogReader
	mu   sync.Mutex
	byID map[types.UID]map[string]string
	// late counts, by container id, the reads that were not answered in time.
	late map[types.UID]map[string]int
}

func newMessages(logs host.LogReader) *messages {
	return &messages{logs: logs, byID: map[types.UID]map[string]string{}, late: map[types.UID]map[string]int{}}
}

// collect reads the messages of containers that ended since the last call, and drops those of containers that the runtime
// has no more. An error is one of the link: the message exists and must not be lost, unless the host is asked for it again
// and again and does not answer in time.
func (m *messages) collect(ctx context.Context, pod *v1.Pod, rs *cri.PodStatus) error {
	m.retain(pod.UID, rs)
	bounded, cancel := context.WithTimeout(ctx, messageTimeout)
	defer cancel()
	var errs []error
	for i := range rs.Containers {
		cs := &rs.Containers[i]
		if cs.State != cri.ContainerExited || m.has(pod.UID, cs.ID) {
			continue
		}
		text, err := m.read(bounded, pod, cs)
		switch {
		case err == nil:
			m.put(pod.UID, cs.ID, text)
		case ctx.Err() != nil:
			return ctx.Err()
		case isLate(err) && m.countLate(pod.UID, cs.ID) >= messageTries:
			m.put(pod.UID, cs.ID, "")
		default:
			errs = append(errs, fmt.Errorf("reading the termination message of container %q: %w", cs.Name, err))
		}
	}
	return errors.Join(errs...)
}

// isLate says whether the host did not answer in time. A link that is down is another matter: it will be up again.
func isLate(err error) bool {
	return errdefs.IsDeadlineExceeded(err) || errors.Is(err, context.DeadlineExceeded)
}

func (m *messages) countLate(uid types.UID, id string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.late[uid] == nil {
		m.late[uid] = map[string]int{}
	}
	m.late[uid][id]++
	return m.late[uid][id]
}

func (m *messages) read(ctx context.Context, pod *v1.Pod, cs *cri.ContainerStatus) (string, error) {
	if known, ok := published(pod, cs.ID); ok {
		return known, nil
	}
	text, err := m.readFile(ctx, cs)
	if err != nil || text != "" || !fallsBackToLogs(cs) {
		return text, err
	}
	return m.readLog(ctx, cs)
}

// published finds the message in the API's copy of the status: the file goes when the pod ends, the message stays.
func published(pod *v1.Pod, id string) (string, bool) {
	want := cri.APIContainerID(id)
	all := slices.Concat(
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses)
	for i := range all {
		for _, t := range []*v1.ContainerStateTerminated{all[i].State.Terminated, all[i].LastTerminationState.Terminated} {
			if t != nil && t.ContainerID == want {
				return t.Message, true
			}
		}
	}
	return "", false
}

func (m *messages) readFile(ctx context.Context, cs *cri.ContainerStatus) (string, error) {
	if cs.TerminationMessageHostPath == "" {
		return "", nil
	}
	b, err := m.logs.ReadTail(ctx, cs.TerminationMessageHostPath, messageFileBytes)
	return string(b), onlyLinkErrors(ctx, err)
}

func fallsBackToLogs(cs *cri.ContainerStatus) bool {
	return cs.Annotations[cri.AnnotationTerminationMessagePolicy] == string(v1.TerminationMessageFallbackToLogsOnError) &&
		cs.ExitCode != 0 && cs.Reason != "ContainerCannotRun"
}

func (m *messages) readLog(ctx context.Context, cs *cri.ContainerStatus) (string, error) {
	if cs.LogPath == "" {
		return "", nil
	}
	var end tail
	err := m.logs.ReadLog(ctx, host.LogRequest{
		Path: cs.LogPath, ContainerID: cs.ID, TailLines: messageLogLines, LimitBytes: -1,
	}, &end, &end)
	if err != nil {
		return "", onlyLinkErrors(ctx, err)
	}
	return string(end), nil
}

// tail is a writer that keeps the last messageLogBytes bytes: 80 lines may be of any length.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	kept := append(*t, p[max(0, len(p)-messageLogBytes):]...)
	*t = append((*t)[:0], kept[max(0, len(kept)-messageLogBytes):]...)
	return len(p), nil
}

// onlyLinkErrors drops errors that say something of the file: then there is no message.
func onlyLinkErrors(ctx context.Context, err error) error {
	if err != nil && (errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err) || ctx.Err() != nil) {
		return err
	}
	return nil
}

func (m *messages) has(uid types.UID, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.byID[uid][id]
	return ok
}

func (m *messages) get(uid types.UID, id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byID[uid][id]
}

func (m *messages) put(uid types.UID, id, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byID[uid] == nil {
		m.byID[uid] = map[string]string{}
	}
	m.byID[uid][id] = text
}

// retain keeps those of the containers in the observation.
func (m *messages) retain(uid types.UID, rs *cri.PodStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := func(id string) bool {
		return !slices.ContainsFunc(rs.Containers, func(cs cri.ContainerStatus) bool { return cs.ID == id })
	}
	maps.DeleteFunc(m.byID[uid], func(id, _ string) bool { return gone(id) })
	maps.DeleteFunc(m.late[uid], func(id string, _ int) bool { return gone(id) })
}

func (m *messages) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byID, uid)
	delete(m.late, uid)
}
