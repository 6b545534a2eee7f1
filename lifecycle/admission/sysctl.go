// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"regexp"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	sysctlhelper "k8s.io/component-helpers/node/util/sysctl"
	"k8s.io/utils/ptr"
)

// reasonSysctl is the kubelet's reason for pods that ask for a sysctl that is not allowed.
const reasonSysctl = "SysctlForbidden"

// maxSysctl is the API's limit of the length of a name.
const maxSysctl = 253

// sysctlPattern is the API's form of a name, with an asterisk for any end.
var sysctlPattern = regexp.MustCompile(`^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*([a-z0-9][-_a-z0-9]*)?[a-z0-9*]$`)

// safeSysctls are the kubelet's: those that belong to the pod and to nobody else, with the version of the kernel from which
// on they do.
var safeSysctls = []struct{ name, kernel string }{
	{"kernel.shm_rmid_forced", ""},
	{"net.ipv4.ip_local_port_range", ""},
	{"net.ipv4.tcp_syncookies", ""},
	{"net.ipv4.ping_group_range", ""},
	{"net.ipv4.ip_unprivileged_port_start", ""},
	{"net.ipv4.ip_local_reserved_ports", "3.16"},
	{"net.ipv4.tcp_keepalive_time", "4.5"},
	{"net.ipv4.tcp_keepalive_intvl", "4.5"},
	{"net.ipv4.tcp_keepalive_probes", "4.5"},
	{"net.ipv4.tcp_fin_timeout", "4.6"},
	{"net.ipv4.tcp_notsent_lowat", "4.6"},
	{"net.ipv4.tcp_rmem", "4.15"},
	{"net.ipv4.tcp_wmem", "4.15"},
	{"net.ipv4.tcp_slow_start_after_idle", "4.15"},
}

// ValidateSysctlPattern says what is wrong with a pattern of sysctls that shall be allowed: a name, or the beginning of names
// and an asterisk. Only what the kernel keeps for each pod apart can be allowed.
func ValidateSysctlPattern(pattern string) error {
	if len(pattern) > maxSysctl || !sysctlPattern.MatchString(pattern) {
		return fmt.Errorf("sysctl %q must have at most %d characters and match regex %s", pattern, maxSysctl, sysctlPattern)
	}
	if ns, name, _ := sysctlhelper.GetNamespace(pattern); ns == sysctlhelper.UnknownNamespace {
		return fmt.Errorf("the sysctls %q are not known to be namespaced", name)
	}
	return nil
}

// checkSysctls refuses what is neither safe nor allowed by whoever runs the node.
func checkSysctls(pod *v1.Pod, facts Facts) *Rejection {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for i, s := range pod.Spec.SecurityContext.Sysctls {
		if err := checkSysctl(pod, s.Name, facts); err != nil {
			return &Rejection{
				Reason: reasonSysctl, Field: fmt.Sprintf("spec.securityContext.sysctls[%d]", i), Message: fmt.Sprintf("forbidden sysctl: %v", err),
			}
		}
	}
	return nil
}

func checkSysctl(pod *v1.Pod, name string, facts Facts) error {
	name = sysctlhelper.NormalizeName(name)
	if !safeSysctl(name, facts) && !allowedSysctl(name, facts.UnsafeSysctls) {
		return fmt.Errorf("%q not allowlisted", name)
	}
	// What a pod shares with the host it must not set for the host.
	switch ns, _, _ := sysctlhelper.GetNamespace(name); {
	case ns == sysctlhelper.IPCNamespace && pod.Spec.HostIPC, ns == sysctlhelper.NetNamespace && pod.Spec.HostNetwork,
		ns == sysctlhelper.UserNamespace && ptr.Deref(pod.Spec.HostUsers, true):
		return fmt.Errorf("%q not allowed with host %s enabled", name, ns)
	}
	return nil
}

func safeSysctl(name string, facts Facts) bool {
	for _, safe := range safeSysctls {
		if safe.name == name {
			return safe.kernel == "" || kernelAtLeast(facts, safe.kernel)
		}
	}
	return false
}

// kernelAtLeast compares the host's kernel. A host that has not told anything yet is taken for a recent one: a pod that is
// refused stays refused.
func kernelAtLeast(facts Facts, minimum string) bool {
	if facts.Host == nil {
		return true
	}
	kernel, err := version.ParseGeneric(facts.Host.KernelVersion)
	return err == nil && kernel.AtLeast(version.MustParseGeneric(minimum))
}

// allowedSysctl compares with names and with patterns that end with an asterisk.
func allowedSysctl(name string, patterns []string) bool {
	for _, pattern := range patterns {
		pattern = sysctlhelper.NormalizeName(pattern)
		if prefix, isPrefix := strings.CutSuffix(pattern, "*"); isPrefix && strings.HasPrefix(name, prefix) || pattern == name {
			return true
		}
	}
	return false
}
