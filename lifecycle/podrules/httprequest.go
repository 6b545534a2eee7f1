// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import (
	"cmp"
	"errors"
	"fmt"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tombolo-dev/tombolo/host"
)

// What servers see as the client's name. Programs and their logs tell probes from users by it.
const (
	probeUserAgent = "kube-probe/1.37"
	hookUserAgent  = "kube-lifecycle/1.37"
)

// errNoPodIP says that there is no address to go to yet.
var errNoPodIP = errors.New("the pod has no IP address and the action names no host")

// HookHTTPRequest returns the request of a hook as the kubelet would make it. An error names the field to mend and is of
// class InvalidArgument, unless it says that the pod has no address.
func HookHTTPRequest(pod *v1.Pod, container *v1.Container, action *v1.HTTPGetAction, podIP string) (*host.HTTPRequest, error) {
	return httpRequest(pod, container, action, podIP, hookUserAgent)
}

// ProbeHTTPRequest returns the request of a probe. Errors are those of HookHTTPRequest.
func ProbeHTTPRequest(pod *v1.Pod, container *v1.Container, action *v1.HTTPGetAction, podIP string) (*host.HTTPRequest, error) {
	return httpRequest(pod, container, action, podIP, probeUserAgent)
}

// ProbeTCPRequest returns the connection that a probe tries. Errors are those of HookHTTPRequest.
func ProbeTCPRequest(pod *v1.Pod, container *v1.Container, action *v1.TCPSocketAction, podIP string) (*host.TCPRequest, error) {
	address, port, err := target(container, action.Host, action.Port, podIP)
	if err != nil {
		return nil, inAction(pod, container, "tcpSocket", err)
	}
	return &host.TCPRequest{Host: address, Port: port}, nil
}

// ProbeGRPCRequest returns the question of a probe to a gRPC health service. Errors are those of HookHTTPRequest.
func ProbeGRPCRequest(pod *v1.Pod, container *v1.Container, action *v1.GRPCAction, podIP string) (*host.GRPCRequest, error) {
	address, port, err := target(container, "", intstr.FromInt32(action.Port), podIP)
	if err != nil {
		return nil, inAction(pod, container, "grpc", err)
	}
	req := &host.GRPCRequest{Host: address, Port: port, UserAgent: probeUserAgent}
	if action.Service != nil {
		req.Service = *action.Service
	}
	return req, nil
}

func httpRequest(
	pod *v1.Pod, container *v1.Container, action *v1.HTTPGetAction, podIP, userAgent string,
) (*host.HTTPRequest, error) {
	address, port, err := target(container, action.Host, action.Port, podIP)
	if err != nil {
		return nil, inAction(pod, container, "httpGet", err)
	}
	return &host.HTTPRequest{
		Scheme: cmp.Or(strings.ToLower(string(action.Scheme)), "http"), Host: address, Port: port, Path: action.Path,
		Headers: headers(action.HTTPHeaders, userAgent),
	}, nil
}

// headers returns the given headers, in their order and as often as they are given, and behind them the defaults of those
// that are not. A first Accept that is empty asks for a request without any.
func headers(given []v1.HTTPHeader, userAgent string) []host.Header {
	out := make([]host.Header, 0, len(given)+2)
	for _, h := range given {
		out = append(out, host.Header(h))
	}
	named := func(name string) func(host.Header) bool {
		return func(h host.Header) bool { return textproto.CanonicalMIMEHeaderKey(h.Name) == name }
	}
	if !slices.ContainsFunc(out, named("User-Agent")) {
		out = append(out, host.Header{Name: "User-Agent", Value: userAgent})
	}
	switch at := slices.IndexFunc(out, named("Accept")); {
	case at < 0:
		out = append(out, host.Header{Name: "Accept", Value: "*/*"})
	case out[at].Value == "":
		out = slices.DeleteFunc(out, named("Accept"))
	}
	return out
}

// target returns where an action goes.
func target(container *v1.Container, address string, port intstr.IntOrString, podIP string) (string, int32, error) {
	number, err := portNumber(container, port)
	if err != nil {
		return "", 0, err
	}
	address = cmp.Or(address, podIP)
	if address == "" {
		return "", 0, errNoPodIP
	}
	return address, number, nil
}

// portNumber resolves a port. A text is the name of one of the container's ports or else a number.
func portNumber(container *v1.Container, port intstr.IntOrString) (int32, error) {
	number := int64(port.IntVal)
	if port.Type == intstr.String {
		for i := range container.Ports {
			if container.Ports[i].Name == port.StrVal {
				return container.Ports[i].ContainerPort, nil
			}
		}
		var err error
		if number, err = strconv.ParseInt(port.StrVal, 10, 32); err != nil {
			return 0, fmt.Errorf("%w: port %q is neither the name of a port of the container nor a number",
				errdefs.ErrInvalidArgument, port.StrVal)
		}
	}
	if number < 1 || number > 65535 {
		return 0, fmt.Errorf("%w: port %d is not between 1 and 65535", errdefs.ErrInvalidArgument, number)
	}
	return int32(number), nil
}

func inAction(pod *v1.Pod, container *v1.Container, field string, err error) error {
	return fmt.Errorf("%s of container %q in pod \"%s/%s\": %w", field, container.Name, pod.Namespace, pod.Name, err)
}
