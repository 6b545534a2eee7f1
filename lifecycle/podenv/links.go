// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"context"
	"net"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// masterService is the Service of the API server, which every pod is told of.
const masterService = "kubernetes"

// serviceVariables are the variables that announce Services: those of the pod's namespace, if it wants to be told of them,
// and that of the API server. A static pod may start before Services are known and is told of what is known by then.
func serviceVariables(ctx context.Context, pod *v1.Pod, objects Objects) (map[string]string, error) {
	if podrules.Static(pod) {
		noWait, cancel := context.WithCancel(ctx)
		cancel()
		variables, err := announced(noWait, pod, objects)
		if err != nil && ctx.Err() == nil {
			return map[string]string{}, nil
		}
		return variables, err
	}
	return announced(ctx, pod, objects)
}

func announced(ctx context.Context, pod *v1.Pod, objects Objects) (map[string]string, error) {
	out := map[string]string{}
	of := func(namespace string, wanted func(*v1.Service) bool) error {
		services, err := objects.Services(ctx, namespace)
		if err != nil {
			return err
		}
		for _, s := range services {
			if wanted(s) {
				announce(out, s)
			}
		}
		return nil
	}
	if err := of(v1.NamespaceDefault, func(s *v1.Service) bool { return s.Name == masterService }); err != nil {
		return nil, err
	}
	if !ptr.Deref(pod.Spec.EnableServiceLinks, v1.DefaultEnableServiceLinks) {
		return out, nil
	}
	// A service of the pod's own namespace goes before one of the same name elsewhere.
	return out, of(pod.Namespace, func(*v1.Service) bool { return true })
}

// announce adds the variables of one service, unless it has no address of its own.
func announce(out map[string]string, s *v1.Service) {
	ip := s.Spec.ClusterIP
	if ip == "" || ip == v1.ClusterIPNone || len(s.Spec.Ports) == 0 {
		return
	}
	name := variableName(s.Name)
	out[name+"_SERVICE_HOST"] = ip
	out[name+"_SERVICE_PORT"] = strconv.Itoa(int(s.Spec.Ports[0].Port))
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		number := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			out[name+"_SERVICE_PORT_"+variableName(p.Name)] = number
		}
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(v1.ProtocolTCP)
		}
		url := strings.ToLower(protocol) + "://" + net.JoinHostPort(ip, number)
		if i == 0 {
			out[name+"_PORT"] = url
		}
		link := name + "_PORT_" + number + "_" + strings.ToUpper(protocol)
		out[link] = url
		out[link+"_PROTO"] = strings.ToLower(protocol)
		out[link+"_PORT"] = number
		out[link+"_ADDR"] = ip
	}
}

func variableName(s string) string { return strings.ToUpper(strings.ReplaceAll(s, "-", "_")) }
