// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Sizes in bytes of what a sandbox takes over of the annotations of its pod, of one value and of all together. Annotations
// are there for runtimes and network plugins, whose are short. A full node's sandboxes must fit in one list, and an
// object of the API may carry 256 KiB.
const (
	maxAnnotationBytes  = 4 << 10
	maxAnnotationsBytes = 16 << 10
)

// SandboxInput is what a sandbox's configuration is made of.
type SandboxInput struct {
	Pod *v1.Pod
	// Attempt tells the sandboxes of one pod apart.
	Attempt  uint32
	Identity Identity
	// PodLogsDir is the directory on the host that holds the log directories of all pods.
	PodLogsDir string
	// DNS is the result of DNSConfig, Hostname that of SandboxHostname.
	DNS      *runtimeapi.DNSConfig
	Hostname string
	// CgroupParent is the control group of the pod, "" for the runtime's own choice.
	CgroupParent string
	// IDs are the ids of the host that those of the pod's own user namespace stand for; nil if it has none.
	IDs *runtimeapi.IDMapping
}

// SandboxConfig returns the configuration of a pod's sandbox. An error means that the pod asks for what cannot be done.
func SandboxConfig(in SandboxInput) (*runtimeapi.PodSandboxConfig, error) {
	pod := in.Pod
	if err := identified(pod); err != nil {
		return nil, err
	}
	security, err := sandboxSecurity(pod, in.IDs)
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{
			Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: in.Attempt,
		},
		Hostname:     in.Hostname,
		LogDirectory: LogDirectory(in.PodLogsDir, pod),
		DnsConfig:    in.DNS,
		PortMappings: portMappings(pod),
		Labels:       podLabels(pod, in.Identity, pod.Labels),
		Annotations:  podAnnotations(pod),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent:    in.CgroupParent,
			SecurityContext: security,
			Sysctls:         sysctls(pod),
			Overhead:        SandboxOverhead(pod),
			Resources:       podResources(pod),
		},
	}, nil
}

// identified checks what every CRI object needs of its pod.
func identified(pod *v1.Pod) error {
	var errs []error
	for _, f := range []struct{ field, value string }{
		{"metadata.uid", string(pod.UID)}, {"metadata.name", pod.Name}, {"metadata.namespace", pod.Namespace},
	} {
		if f.value == "" {
			errs = append(errs, fmt.Errorf("%s of the pod is empty", f.field))
		}
	}
	return errors.Join(errs...)
}

// podLabels adds the kubelet's keys and the identity to base, which they win over.
func podLabels(pod *v1.Pod, identity Identity, base map[string]string) map[string]string {
	labels := maps.Clone(base)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[LabelPodName] = pod.Name
	labels[LabelPodNamespace] = pod.Namespace
	labels[LabelPodUID] = string(pod.UID)
	maps.Copy(labels, identity.Labels())
	return labels
}

// podAnnotations takes over the pod's annotations as far as they are short, the shortest first. What kubectl keeps there
// for itself is a copy of the whole pod, of use to nobody on the host.
func podAnnotations(pod *v1.Pod) map[string]string {
	keys := slices.SortedFunc(maps.Keys(pod.Annotations), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(pod.Annotations[a]), len(pod.Annotations[b])), cmp.Compare(a, b))
	})
	out := map[string]string{}
	size := 0
	for _, k := range keys {
		v := pod.Annotations[k]
		if k == v1.LastAppliedConfigAnnotation {
			continue
		}
		if size += len(k) + len(v); len(v) > maxAnnotationBytes || size > maxAnnotationsBytes {
			break
		}
		out[k] = v
	}
	return out
}

// portMappings has one entry for each port of each regular container, also for those without a host port, which do
// nothing: network plugins may look at them.
func portMappings(pod *v1.Pod) []*runtimeapi.PortMapping {
	var out []*runtimeapi.PortMapping
	for i := range pod.Spec.Containers {
		seen := map[string]bool{}
		for _, p := range pod.Spec.Containers[i].Ports {
			if key := portKey(p); !seen[key] {
				seen[key] = true
				out = append(out, &runtimeapi.PortMapping{
					Protocol: protocolOf(p.Protocol), ContainerPort: p.ContainerPort, HostPort: p.HostPort, HostIp: p.HostIP,
				})
			}
		}
	}
	return out
}

// portKey tells the ports of a container apart: by name, or by everything else.
func portKey(p v1.ContainerPort) string {
	if p.Name != "" {
		return p.Name
	}
	family := "any"
	switch {
	case strings.Contains(p.HostIP, ":"):
		family = "v6"
	case p.HostIP != "":
		family = "v4"
	}
	return fmt.Sprintf("%s-%s-%s:%d:%d", family, p.Protocol, p.HostIP, p.ContainerPort, p.HostPort)
}

func protocolOf(p v1.Protocol) runtimeapi.Protocol {
	switch p {
	case v1.ProtocolUDP:
		return runtimeapi.Protocol_UDP
	case v1.ProtocolSCTP:
		return runtimeapi.Protocol_SCTP
	default:
		return runtimeapi.Protocol_TCP
	}
}

// sysctls returns the pod's sysctls with their names in the dotted form that runtimes know.
func sysctls(pod *v1.Pod) map[string]string {
	if pod.Spec.SecurityContext == nil || len(pod.Spec.SecurityContext.Sysctls) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, s := range pod.Spec.SecurityContext.Sysctls {
		out[dottedSysctl(s.Name)] = s.Value
	}
	return out
}

// dottedSysctl turns "net/ipv4/conf/eth0.1/x" into "net.ipv4.conf.eth0/1.x": whichever of the two signs comes first is
// the separator, and the other stands for it within a part.
func dottedSysctl(name string) string {
	if i := strings.IndexAny(name, "./"); i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer(".", "/", "/", ".").Replace(name)
}
