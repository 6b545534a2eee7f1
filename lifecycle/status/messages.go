// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// reasonCannotRun is the runtime's reason for a container whose process could not even be started; it has no log.
const reasonCannotRun = "ContainerCannotRun"

// defaultMessageTimeout bounds the reading of one message.
const defaultMessageTimeout = 10 * time.Second

// MessageFiles reads what ended containers left on the host. It is a part of host.LogReader. Both calls may be repeated.
type MessageFiles interface {
	// ReadTail returns the end of a file, NotFound if it does not exist.
	ReadTail(ctx context.Context, path string, limit int64) ([]byte, error)
	// ReadLog writes the selected part of a container's log.
	ReadLog(ctx context.Context, req host.LogRequest, stdout, stderr io.Writer) error
}

// Messages reads the termination messages of ended containers and keeps them: a message is final once its container has
// ended, so each is read once, and is still there after its file was removed. It may be used by any number of
// goroutines.
type Messages struct {
	files   MessageFiles
	timeout time.Duration

	mu sync.Mutex
	// byPod has the messages of each pod by container id.
	byPod map[types.UID]map[string]string
}

// NewMessages makes a reader of messages. Timeout bounds the reading of one message; 0 means 10 seconds.
func NewMessages(files MessageFiles, timeout time.Duration) *Messages {
	if timeout <= 0 {
		timeout = defaultMessageTimeout
	}
	return &Messages{files: files, timeout: timeout, byPod: map[types.UID]map[string]string{}}
}

// Read makes sure that the messages of all ended containers of an observation are known and returns a function for
// Input.TerminationMessage. The function is good even if there is an error, which tells of messages that could not be
// read: they are missing, and are tried again by the next Read. What is known of containers that the observation does
// not have any more is dropped.
func (m *Messages) Read(ctx context.Context, status *cri.PodStatus) (func(*cri.ContainerStatus) string, error) {
	m.mu.Lock()
	known := m.byPod[status.UID]
	m.mu.Unlock()

	var errs []error
	current := map[string]string{}
	for i := range status.Containers {
		c := &status.Containers[i]
		if c.State != cri.ContainerExited {
			continue
		}
		message, ok := known[c.ID]
		if !ok {
			var err error
			if message, err = m.read(ctx, c); err != nil {
				errs = append(errs, fmt.Errorf("reading the termination message of container %q: %w", c.Name, err))
				continue
			}
		}
		current[c.ID] = message
	}

	m.mu.Lock()
	defer m.mu.Unlock()
	if len(current) == 0 {
		delete(m.byPod, status.UID)
	} else {
		m.byPod[status.UID] = current
	}
	return func(c *cri.ContainerStatus) string { return current[c.ID] }, errors.Join(errs...)
}

// Forget drops what is known of a pod.
func (m *Messages) Forget(uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byPod, uid)
}

// read reads the message of one ended container: the end of its message file, or if that is empty and the container
// asks for it, the end of its log.
func (m *Messages) read(ctx context.Context, c *cri.ContainerStatus) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()
	if c.TerminationMessageHostPath != "" {
		data, err := m.files.ReadTail(ctx, c.TerminationMessageHostPath, maxMessageFile)
		if err != nil && !errdefs.IsNotFound(err) {
			return "", err
		}
		if len(data) == maxMessageFile {
			data = trimCutRune(data)
		}
		if len(data) > 0 {
			return string(data), nil
		}
	}
	policy := v1.TerminationMessagePolicy(c.Annotations[cri.AnnotationTerminationMessagePolicy])
	if policy != v1.TerminationMessageFallbackToLogsOnError || c.ExitCode == 0 || c.Reason == reasonCannotRun || c.LogPath == "" {
		return "", nil
	}
	var end tailWriter
	err := m.files.ReadLog(ctx, host.LogRequest{
		Path: c.LogPath, ContainerID: c.ID, TailLines: maxMessageLogLines, LimitBytes: -1,
	}, &end, &end)
	if err != nil && !errdefs.IsNotFound(err) {
		return "", err
	}
	return string(tail(end.buf.Bytes(), maxMessageLog)), nil
}

// tailWriter keeps the end of what is written to it, in memory that is bounded by a few times what is needed. Standard
// output and standard error of a log may come from two goroutines.
type tailWriter struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer. It always succeeds.
func (w *tailWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(p) >= maxMessageLog {
		w.buf.Reset()
	} else if w.buf.Len() > 2*maxMessageLog {
		w.buf.Next(w.buf.Len() - maxMessageLog)
	}
	return w.buf.Write(p)
}
