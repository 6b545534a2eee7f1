// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// serveLogs answers with the log of a container.
func (s *Server) serveLogs(w http.ResponseWriter, r *http.Request) {
	req, err := s.findLog(r)
	if err != nil {
		writeText(w, logStatus(err), err.Error())
		return
	}
	out := &logWriter{w: w, flush: http.NewResponseController(w).Flush}
	if req.Follow {
		// The client shall know at once that there is a log, though its first line may come much later.
		out.begin()
	}
	err = s.o.Logs.ReadLog(r.Context(), req, out, out)
	switch {
	case err == nil:
		out.begin()
	case !out.begun():
		writeText(w, logStatus(err), fmt.Sprintf("reading the log: %v", err))
	default:
		if r.Context().Err() == nil {
			s.log.Warn("A log was cut off", "path", req.Path, "container", req.ContainerID, "err", err)
		}
		// Too late for a status. Ending the answer properly would pass a part of the log off as the whole.
		panic(http.ErrAbortHandler)
	}
}

// findLog finds out which file is asked for and makes sure that it can be read, so that a host that is cut off or a log
// that is gone is answered with a status and a reason.
func (s *Server) findLog(r *http.Request) (host.LogRequest, error) {
	var none host.LogRequest
	opts, err := parseLogOptions(r.URL.Query())
	if err != nil {
		return none, err
	}
	name, container := r.PathValue("pod"), r.PathValue("container")
	pod, ok := s.o.Pods.Pod(r.PathValue("namespace"), name)
	if !ok {
		return none, statusErrorf(http.StatusNotFound, "pod %q does not exist", name)
	}
	if _, ok := findContainer(pod, container); !ok {
		return none, errNoContainer(pod, container)
	}
	status := s.podStatus(pod)
	source, err := selectLog(pod.Name, &status, container, opts.Previous)
	if err != nil {
		return none, err
	}
	file, err := s.logPath(pod, container, source)
	if err != nil {
		return none, err
	}
	// One byte: it is about whether there is an answer.
	_, err = inTime(r.Context(), &s.o, "reading the log", func(ctx context.Context) ([]byte, error) {
		return s.o.Logs.ReadTail(ctx, file, 1)
	})
	if errdefs.IsNotFound(err) {
		return none, errLogGone(source)
	}
	return logRequest(opts, file, source.containerID, s.o.HostTime()), err
}

// logPath returns where the log of one run of a container is. The runtime says it while it has a record of the run;
// later the file may still be there, under the name it was created with.
func (s *Server) logPath(pod *v1.Pod, container string, source logSource) (string, error) {
	observed, err := s.o.Pods.RuntimeStatus(pod.UID)
	if err == nil && observed != nil {
		for i := range observed.Containers {
			if c := &observed.Containers[i]; c.ID == source.containerID && c.LogPath != "" {
				return c.LogPath, nil
			}
		}
	}
	if dir := s.o.PodLogsDir(); dir != "" {
		return path.Join(cri.LogDirectory(dir, pod), cri.ContainerLogPath(container, source.restartCount)), nil
	}
	if err != nil {
		return "", fmt.Errorf("looking for container %q of pod %q in the runtime: %w", container, pod.Name, err)
	}
	return "", errLogGone(source)
}

// errLogGone is the kubelet's answer when neither the runtime nor the disk has the log.
func errLogGone(source logSource) error {
	return statusErrorf(http.StatusBadRequest, "unable to retrieve container logs for %s://%s", cri.RuntimeName, source.containerID)
}

// logWriter passes each chunk of a log on to the client at once. Both output streams of a container may write to it.
type logWriter struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	flush   func() error
	started bool
}

// Write sends one chunk.
func (l *logWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header()
	n, err := l.w.Write(p)
	if err != nil {
		return n, err
	}
	return n, l.flush()
}

// begin sends the header. A client that went away is noticed by the next write.
func (l *logWriter) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header()
	_ = l.flush()
}

func (l *logWriter) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}

func (l *logWriter) header() {
	if l.started {
		return
	}
	l.started = true
	l.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	l.w.Header().Set("X-Content-Type-Options", "nosniff")
	l.w.WriteHeader(http.StatusOK)
}
