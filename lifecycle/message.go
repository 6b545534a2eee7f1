// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"sync"

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

// messages keeps the termination message of every container that ended and that the runtime still has. They are read once,
// while the container's file is still there, so that computing a status stays a pure function.
type messages struct {
	logs host.LogReader
	mu   sync.Mutex
	byID map[types.UID]map[string]string
}

func newMessages(logs host.LogReader) *messages {
	return &messages{logs: logs, byID: map[types.UID]map[string]string{}}
}

// collect reads the messages of containers that ended since the last call, and drops those of containers that the runtime
// has no more. An error is one of the link: the message exists and must not be lost.
func (m *messages) collect(ctx context.Context, pod *v1.Pod, rs *cri.PodStatus) error {
	m.retain(pod.UID, rs)
	for i := range rs.Containers {
		cs := &rs.Containers[i]
		if cs.State != cri.ContainerExited || m.has(pod.UID, cs.ID) {
			continue
		}
		text, err := m.read(ctx, pod, cs)
		if err != nil {
			return err
		}
		m.put(pod.UID, cs.ID, text)
	}
	return nil
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
	want := cri.RuntimeName + "://" + id
	all := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
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
	var buf bytes.Buffer
	err := m.logs.ReadLog(ctx, host.LogRequest{
		Path: cs.LogPath, ContainerID: cs.ID, TailLines: messageLogLines, LimitBytes: -1,
	}, &buf, &buf)
	if err != nil {
		return "", onlyLinkErrors(ctx, err)
	}
	b := buf.Bytes()
	return string(b[max(0, len(b)-messageLogBytes):]), nil
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
	maps.DeleteFunc(m.byID[uid], func(id, _ string) bool {
		return !slices.ContainsFunc(rs.Containers, func(cs cri.ContainerStatus) bool { return cs.ID == id })
	})
}

func (m *messages) forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byID, uid)
}
