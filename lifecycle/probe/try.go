// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podenv"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

const (
	// tries is how often an error of the probe itself, not of the program, is met before it is told.
	tries = 3
	// maxOutput is how much of a command's output is kept, 10 KiB as in the kubelet.
	maxOutput = 10 << 10
	// answerSlack is how long after a try's own timeout its answer may come. It has to cover what a busy host takes to begin
	// a command; a command whose children hold its output open may never be answered.
	answerSlack = 10 * time.Second
	// confirmTimeout bounds the question whether the runtime answers.
	confirmTimeout = 2 * time.Second
)

// try asks the program. Errors are those of once.
func (w *worker) try(pod *v1.Pod, rs *cri.PodStatus, id string) (result *host.ProbeResult, err error) {
	for range tries {
		result, err = w.once(pod, rs, id)
		if err == nil || cri.OutcomeUnknown(err) || w.ctx.Err() != nil {
			break
		}
	}
	return result, err
}

// once makes one try. An error says nothing of the program; if cri.OutcomeUnknown, no answer came.
func (w *worker) once(pod *v1.Pod, rs *cri.PodStatus, id string) (*host.ProbeResult, error) {
	if w.spec.Exec != nil {
		return w.exec(id)
	}
	req := host.ProbeRequest{Timeout: w.timeout}
	var err error
	switch ip := w.podIP(pod, rs); {
	case w.spec.HTTPGet != nil:
		req.HTTPGet, err = podrules.ProbeHTTPRequest(pod, w.container, w.spec.HTTPGet, ip)
	case w.spec.TCPSocket != nil:
		req.TCP, err = podrules.ProbeTCPRequest(pod, w.container, w.spec.TCPSocket, ip)
	case w.spec.GRPC != nil:
		req.GRPC, err = podrules.ProbeGRPCRequest(pod, w.container, w.spec.GRPC, ip)
	default:
		err = errors.New("the probe names no handler that can be asked: use exec, httpGet, tcpSocket or grpc")
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(w.ctx, w.timeout+answerSlack)
	defer cancel()
	return w.m.opts.Prober.Probe(ctx, req)
}

func (w *worker) podIP(pod *v1.Pod, rs *cri.PodStatus) string {
	switch {
	case len(rs.IPs) > 0:
		return rs.IPs[0]
	case pod.Spec.HostNetwork && w.m.opts.HostIP != nil:
		return w.m.opts.HostIP()
	default:
		return ""
	}
}

// exec runs the command in the container. The runtime ends it when its time is up and says so. When no answer comes, the
// command is taken to have had its time only if the runtime then answers another question: else the link may be what is
// slow.
func (w *worker) exec(id string) (*host.ProbeResult, error) {
	command := w.command()
	ctx, cancel := context.WithTimeout(w.ctx, w.timeout+answerSlack)
	defer cancel()
	resp, err := w.m.opts.Runtime.ExecSync(ctx, id, command, w.timeout)
	switch {
	case err == nil && resp.GetExitCode() == 0:
		return &host.ProbeResult{Outcome: host.ProbeSuccess, Output: output(resp)}, nil
	case err == nil:
		return &host.ProbeResult{Outcome: host.ProbeFailure, Output: output(resp)}, nil
	case errors.Is(err, cri.ErrCommandTimedOut), ctx.Err() != nil && w.runs(id):
		return &host.ProbeResult{Outcome: host.ProbeFailure, Output: fmt.Sprintf(
			"command timed out: %q timed out after %s", strings.Join(command, " "), w.timeout)}, nil
	default:
		return nil, err
	}
}

// runs says whether the runtime answers, and answers that the container runs.
func (w *worker) runs(id string) bool {
	ctx, cancel := context.WithTimeout(w.ctx, confirmTimeout)
	defer cancel()
	status, err := w.m.opts.Runtime.ContainerStatus(ctx, id)
	return err == nil && status.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING
}

// command is the probe's command with references to the container's literal variables replaced.
func (w *worker) command() []string {
	values := map[string]string{}
	for i := range w.container.Env {
		if v := &w.container.Env[i]; v.ValueFrom == nil {
			values[v.Name] = v.Value
		}
	}
	command := make([]string, len(w.spec.Exec.Command))
	for i, word := range w.spec.Exec.Command {
		command[i] = podenv.Expand(word, values)
	}
	return command
}

func output(resp *runtimeapi.ExecSyncResponse) string {
	out := string(resp.GetStdout()) + string(resp.GetStderr())
	return strings.ToValidUTF8(out[:min(len(out), maxOutput)], "")
}
