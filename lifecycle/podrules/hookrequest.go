// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/host"
)

const (
	// MinHook is the least time a preStop hook gets, however late it is begun: one that could not be begun inside the
	// budget, because the link was down, still runs. It is the kubelet's minimum grace period of a pod.
	MinHook = time.Second
	// HookAnswer is how long the host may take, after a hook's time is up, to end it and to say so.
	HookAnswer = 5 * time.Second
)

// HookRequest returns what the host shall do for the container's hook of that kind, which is one of package host and which
// the container must have. It has no timeout. An error says why the hook cannot be run at all.
func HookRequest(pod *v1.Pod, container *v1.Container, kind, containerID, podIP string) (host.HookRequest, error) {
	handler, field := container.Lifecycle.PreStop, "lifecycle.preStop"
	if kind == host.HookPostStart {
		handler, field = container.Lifecycle.PostStart, "lifecycle.postStart"
	}
	req := host.HookRequest{PodUID: pod.UID, ContainerID: containerID, Kind: kind}
	switch {
	case handler.Exec != nil:
		req.Command = handler.Exec.Command
	case handler.HTTPGet != nil:
		request, err := HookHTTPRequest(pod, container, handler.HTTPGet, podIP)
		if err != nil {
			return req, err
		}
		req.HTTPGet = request
	case handler.Sleep != nil:
		req.Sleep = new(time.Duration(handler.Sleep.Seconds) * time.Second)
	default:
		return req, fmt.Errorf("%s names no handler that can be run: use exec, httpGet or sleep", field)
	}
	return req, nil
}

// HTTPFallback returns reason and message of the event that a hook's HTTPS request was answered in plain HTTP.
func HTTPFallback(req *host.HTTPRequest) (reason, message string) {
	return "LifecycleHTTPFallback", fmt.Sprintf(
		"request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", req.Host)
}
