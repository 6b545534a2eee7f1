// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"net/http"
	"net/url"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// streamOptions say which streams a client wants.
type streamOptions struct {
	stdin, stdout, stderr, tty bool
}

// parseStreamOptions reads the query of an exec or attach request. The first name of each stream is the kubelet's, the
// second that of the API's PodExecOptions.
func parseStreamOptions(query url.Values) (streamOptions, error) {
	o := streamOptions{
		stdin:  isSet(query, "input", "stdin"),
		stdout: isSet(query, "output", "stdout"),
		stderr: isSet(query, "error", "stderr"),
		tty:    isSet(query, "tty"),
	}
	if o.tty {
		// A terminal has one output. Clients ask for both all the same.
		o.stderr = false
	}
	if !o.stdin && !o.stdout && !o.stderr {
		return o, statusErrorf(http.StatusBadRequest, "you must specify at least 1 of stdin, stdout, stderr")
	}
	return o, nil
}

func isSet(query url.Values, names ...string) bool {
	for _, name := range names {
		if value := query.Get(name); value == "1" || value == "true" {
			return true
		}
	}
	return false
}

// serveExec runs a command in a container and connects the client with it.
func (s *Server) serveExec(w http.ResponseWriter, r *http.Request) {
	s.serveStream(w, r, func(ctx context.Context) (string, error) {
		req, err := s.execRequest(r)
		if err != nil {
			return "", err
		}
		return inTime(ctx, &s.o, "asking the runtime to exec", func(ctx context.Context) (string, error) {
			return s.o.Runtime.Exec(ctx, req)
		})
	})
}

func (s *Server) execRequest(r *http.Request) (*runtimeapi.ExecRequest, error) {
	query := r.URL.Query()
	opts, err := parseStreamOptions(query)
	if err != nil {
		return nil, err
	}
	command := query["command"]
	if len(command) == 0 {
		return nil, statusErrorf(http.StatusBadRequest, "you must specify at least one command")
	}
	pod, container, err := s.streamContainer(r)
	if err != nil {
		return nil, err
	}
	id, err := s.runningContainer(pod, container.Name)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, statusErrorf(http.StatusNotFound, "container not found (%q)", container.Name)
	}
	return &runtimeapi.ExecRequest{
		ContainerId: id, Cmd: command, Tty: opts.tty, Stdin: opts.stdin, Stdout: opts.stdout, Stderr: opts.stderr,
	}, nil
}

// serveAttach connects the client with the first process of a container.
func (s *Server) serveAttach(w http.ResponseWriter, r *http.Request) {
	s.serveStream(w, r, func(ctx context.Context) (string, error) {
		req, err := s.attachRequest(r)
		if err != nil {
			return "", err
		}
		return inTime(ctx, &s.o, "asking the runtime to attach", func(ctx context.Context) (string, error) {
			return s.o.Runtime.Attach(ctx, req)
		})
	})
}

func (s *Server) attachRequest(r *http.Request) (*runtimeapi.AttachRequest, error) {
	opts, err := parseStreamOptions(r.URL.Query())
	if err != nil {
		return nil, err
	}
	pod, container, err := s.streamContainer(r)
	if err != nil {
		return nil, err
	}
	id, err := s.runningContainer(pod, container.Name)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, statusErrorf(http.StatusBadRequest, "container %q in pod %q is not running, so there is nothing to attach to",
			container.Name, pod.Name)
	}
	// Whether there is a terminal was settled when the container was started; what the client believes does not matter.
	return &runtimeapi.AttachRequest{
		ContainerId: id, Tty: container.TTY,
		Stdin: opts.stdin, Stdout: opts.stdout, Stderr: opts.stderr && !container.TTY,
	}, nil
}

// serveStream refuses what is no upgrade, asks locate for the URL of the runtime's streaming server and connects the
// client with it.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request, locate func(context.Context) (string, error)) {
	err := errNoUpgrade(r)
	var location string
	if err == nil {
		location, err = locate(r.Context())
	}
	if err == nil {
		err = s.tunnel(w, r, location)
	}
	if err == nil {
		return
	}
	if streamStatus(err) >= http.StatusInternalServerError && r.Context().Err() == nil {
		s.log.Warn("A stream could not be opened", "path", r.URL.Path, "err", err)
	}
	if streamStatus(err) == http.StatusTooManyRequests {
		// The runtime forgets URLs nobody used after a minute.
		w.Header().Set("Retry-After", "60")
	}
	writeText(w, streamStatus(err), err.Error())
}
