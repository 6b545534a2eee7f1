// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"path"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Lengths of the kernel's host name: what fits with its end mark, and what fits without.
const (
	maxHostname = 63
	maxFQDN     = 64
)

// ContainerHash returns the hash that tells whether a container was created from this definition. It covers name and
// image only, because nothing else of a container that exists can change but its resources. It is written on every
// container: another way to compute it restarts them all.
func ContainerHash(c *v1.Container) string {
	// Marshalling a map of strings cannot fail, and sorts the keys.
	b, _ := json.Marshal(map[string]string{"name": c.Name, "image": c.Image})
	h := fnv.New32a()
	_, _ = h.Write(b)
	return strconv.FormatUint(uint64(h.Sum32()), 16)
}

// LogDirectory returns the directory on the host that holds the logs of a pod's containers.
func LogDirectory(podLogsDir string, pod *v1.Pod) string {
	return path.Join(podLogsDir, pod.Namespace+"_"+pod.Name+"_"+string(pod.UID))
}

// ContainerLogPath returns the path of a container's log file below the pod's log directory.
func ContainerLogPath(container string, restartCount int32) string {
	return path.Join(container, strconv.FormatInt(int64(restartCount), 10)+".log")
}

// ExitHookName returns the name in the runtime of the container that runs the preStop hook of the named one after its end.
// No container of a spec can be called so: those names have no dots.
func ExitHookName(container string) string { return container + ".exit-hook" }

// exitHookLogPath is beside the logs of the container, and none of them.
func exitHookLogPath(container string) string { return path.Join(container, "exit-hook.log") }

// Hostname returns the pod's host name without a domain, cut to what the kernel takes.
func Hostname(pod *v1.Pod) string {
	name := pod.Name
	switch {
	case pod.Spec.HostnameOverride != nil:
		name = *pod.Spec.HostnameOverride
	case pod.Spec.Hostname != "":
		name = pod.Spec.Hostname
	}
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-.")
	}
	return name
}

// SandboxHostname returns the host name that a pod's sandbox gets: none on the host's network, and the fully qualified
// one if the pod asks for it. That one is never cut; it is an error if the kernel does not take it.
func SandboxHostname(pod *v1.Pod, clusterDomain string) (string, error) {
	if pod.Spec.HostNetwork {
		return "", nil
	}
	host := Hostname(pod)
	domain := hostDomain(pod, clusterDomain)
	if domain == "" || !ptr.Deref(pod.Spec.SetHostnameAsFQDN, false) {
		return host, nil
	}
	fqdn := host + "." + domain
	if len(fqdn) > maxFQDN {
		return "", fmt.Errorf("failed to construct FQDN from pod hostname and cluster domain, FQDN %s is too long "+
			"(%d characters is the max, %d characters requested)", fqdn, maxFQDN, len(fqdn)) // the kubelet's words
	}
	return fqdn, nil
}

// hostDomain returns the domain of the pod's host name, "" if it has none.
func hostDomain(pod *v1.Pod, clusterDomain string) string {
	if pod.Spec.Subdomain == "" || pod.Spec.HostnameOverride != nil {
		return ""
	}
	return strings.TrimSuffix(pod.Spec.Subdomain+"."+pod.Namespace+".svc."+clusterDomain, ".")
}
