// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// Paths that a container cannot read, and cannot write, unless its procMount is Unmasked: the kubelet's lists, to which throttle
// adds.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats",
		"/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware",
		"/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// throttle are the counters of each of the machine's processors that tell how busy its neighbours are. Runtimes pass over those
// that a machine does not have.
func throttle(cpus int) []string {
	out := make([]string, 0, cpus)
	for n := range cpus {
		out = append(out, fmt.Sprintf("/sys/devices/system/cpu/cpu%d/thermal_throttle", n))
	}
	return out
}

func sandboxSecurity(pod *v1.Pod, ids *runtimeapi.IDMapping) (*runtimeapi.LinuxSandboxSecurityContext, error) {
	namespaces, err := namespaceOptions(pod, ids)
	if err != nil {
		return nil, err
	}
	policy, err := groupsPolicy(pod)
	if err != nil {
		return nil, err
	}
	sc := ptr.Deref(pod.Spec.SecurityContext, v1.PodSecurityContext{})
	if sc.RunAsUser == nil {
		sc.RunAsGroup = nil // a runtime takes a group only beside a user, and the containers have their own
	}
	return &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions:         namespaces,
		SelinuxOptions:           selinux(sc.SELinuxOptions),
		RunAsUser:                int64Value(sc.RunAsUser),
		RunAsGroup:               int64Value(sc.RunAsGroup),
		SupplementalGroups:       supplementalGroups(pod),
		SupplementalGroupsPolicy: policy,
		Privileged:               anyPrivileged(pod),
		Seccomp:                  &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
	}, nil
}

func containerSecurity(in ContainerInput) (*runtimeapi.LinuxContainerSecurityContext, error) {
	namespaces, err := namespaceOptions(in.Pod, in.IDs)
	if err != nil {
		return nil, err
	}
	if in.TargetID != "" && namespaces.GetPid() == runtimeapi.NamespaceMode_CONTAINER {
		namespaces.Pid, namespaces.TargetId = runtimeapi.NamespaceMode_TARGET, in.TargetID
	}
	policy, err := groupsPolicy(in.Pod)
	if err != nil {
		return nil, err
	}
	sc := effectiveSecurity(in.Pod, in.Container)
	if err := checkNonRoot(in, sc); err != nil {
		return nil, err
	}
	seccomp, err := seccompProfile(in, sc.SeccompProfile)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		Capabilities:             capabilities(sc.Capabilities),
		Privileged:               ptr.Deref(sc.Privileged, false),
		NamespaceOptions:         namespaces,
		SelinuxOptions:           selinux(sc.SELinuxOptions),
		RunAsUser:                int64Value(sc.RunAsUser),
		RunAsGroup:               int64Value(sc.RunAsGroup),
		ReadonlyRootfs:           ptr.Deref(sc.ReadOnlyRootFilesystem, false),
		SupplementalGroups:       supplementalGroups(in.Pod),
		SupplementalGroupsPolicy: policy,
		NoNewPrivs:               !ptr.Deref(sc.AllowPrivilegeEscalation, true),
		Seccomp:                  seccomp,
		Apparmor:                 apparmorProfile(in.Pod, in.Container),
	}
	if out.RunAsUser == nil && in.Image != nil {
		out.RunAsUser, out.RunAsUsername = in.Image.GetUid(), in.Image.GetUsername()
		if out.RunAsUser == nil && out.RunAsUsername == "" {
			out.RunAsUser = &runtimeapi.Int64Value{} // an image that names no user means root
		}
	}
	if ptr.Deref(sc.ProcMount, v1.DefaultProcMount) != v1.UnmaskedProcMount {
		out.MaskedPaths, out.ReadonlyPaths = slices.Concat(maskedPaths, throttle(in.NodeCPUs)), slices.Clone(readonlyPaths)
	}
	return out, nil
}

// effectiveSecurity fills what the container leaves open from the pod.
func effectiveSecurity(pod *v1.Pod, c *v1.Container) v1.SecurityContext {
	sc := ptr.Deref(c.SecurityContext, v1.SecurityContext{})
	p := ptr.Deref(pod.Spec.SecurityContext, v1.PodSecurityContext{})
	setDefault(&sc.RunAsUser, p.RunAsUser)
	setDefault(&sc.RunAsGroup, p.RunAsGroup)
	setDefault(&sc.RunAsNonRoot, p.RunAsNonRoot)
	setDefault(&sc.SELinuxOptions, p.SELinuxOptions)
	setDefault(&sc.SeccompProfile, p.SeccompProfile)
	return sc
}

func setDefault[T any](field **T, value *T) {
	if *field == nil {
		*field = value
	}
}

// checkNonRoot refuses a container that must not run as root and would, or might.
func checkNonRoot(in ContainerInput, sc v1.SecurityContext) error {
	if !ptr.Deref(sc.RunAsNonRoot, false) {
		return nil
	}
	where := fmt.Sprintf("(pod: %q, container: %s)",
		fmt.Sprintf("%s_%s(%s)", in.Pod.Name, in.Pod.Namespace, in.Pod.UID), in.Container.Name)
	switch {
	case sc.RunAsUser != nil && *sc.RunAsUser == 0:
		return fmt.Errorf("container's runAsUser breaks non-root policy %s", where)
	case sc.RunAsUser != nil:
		return nil
	case in.Image == nil:
		return fmt.Errorf("container has runAsNonRoot and the user of its image is not known, set runAsUser %s", where)
	case in.Image.GetUid() == nil && in.Image.GetUsername() != "":
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s",
			in.Image.GetUsername(), where)
	case in.Image.GetUid().GetValue() == 0:
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", where)
	}
	return nil
}

func namespaceOptions(pod *v1.Pod, ids *runtimeapi.IDMapping) (*runtimeapi.NamespaceOption, error) {
	users, err := userNamespace(pod, ids)
	if err != nil {
		return nil, err
	}
	out := &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: users}
	if pod.Spec.HostNetwork {
		out.Network = runtimeapi.NamespaceMode_NODE
	}
	if pod.Spec.HostIPC {
		out.Ipc = runtimeapi.NamespaceMode_NODE
	}
	switch {
	case pod.Spec.HostPID:
		out.Pid = runtimeapi.NamespaceMode_NODE
	case ptr.Deref(pod.Spec.ShareProcessNamespace, false):
		out.Pid = runtimeapi.NamespaceMode_POD
	}
	return out, nil
}

// supplementalGroups are those of the pod, its fsGroup first.
func supplementalGroups(pod *v1.Pod) []int64 {
	sc := pod.Spec.SecurityContext
	if sc == nil {
		return nil
	}
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	return append(out, sc.SupplementalGroups...)
}

func groupsPolicy(pod *v1.Pod) (runtimeapi.SupplementalGroupsPolicy, error) {
	if pod.Spec.SecurityContext == nil || pod.Spec.SecurityContext.SupplementalGroupsPolicy == nil {
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	}
	name := string(*pod.Spec.SecurityContext.SupplementalGroupsPolicy)
	value, ok := runtimeapi.SupplementalGroupsPolicy_value[name]
	if !ok {
		return 0, fmt.Errorf("unsupported supplementalGroupsPolicy: %s", name)
	}
	return runtimeapi.SupplementalGroupsPolicy(value), nil
}

func anyPrivileged(pod *v1.Pod) bool {
	privileged := func(c v1.Container) bool {
		return c.SecurityContext != nil && ptr.Deref(c.SecurityContext.Privileged, false)
	}
	return slices.ContainsFunc(pod.Spec.InitContainers, privileged) || slices.ContainsFunc(pod.Spec.Containers, privileged)
}

// LocalhostSeccomp returns the path of the seccomp profile that a container names, "" if it names none.
func LocalhostSeccomp(pod *v1.Pod, c *v1.Container) string {
	sc := effectiveSecurity(pod, c)
	if sc.SeccompProfile == nil || sc.SeccompProfile.Type != v1.SeccompProfileTypeLocalhost {
		return ""
	}
	return path.Clean(ptr.Deref(sc.SeccompProfile.LocalhostProfile, ""))
}

func seccompProfile(in ContainerInput, p *v1.SeccompProfile) (*runtimeapi.SecurityProfile, error) {
	if p == nil {
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	}
	switch p.Type {
	case v1.SeccompProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case v1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case v1.SeccompProfileTypeLocalhost:
	default:
		return nil, fmt.Errorf("unknown seccompProfile.type %q of container %q, use RuntimeDefault, Localhost or Unconfined",
			p.Type, in.Container.Name)
	}
	local := ptr.Deref(p.LocalhostProfile, "")
	if local == "" || path.IsAbs(local) || slices.Contains(strings.Split(local, "/"), "..") {
		return nil, fmt.Errorf("seccompProfile.localhostProfile %q of container %q must be a relative path without '..'",
			local, in.Container.Name)
	}
	if in.SeccompDir == "" {
		return nil, fmt.Errorf("seccompProfile.type Localhost of container %q: no directory of profiles is set up on the host",
			in.Container.Name)
	}
	return &runtimeapi.SecurityProfile{
		ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: path.Join(in.SeccompDir, local),
	}, nil
}

// apparmorProfile is that of the container, of the older annotation for it, or of the pod. It is nil, which leaves it to the
// runtime, if none of them says anything.
func apparmorProfile(pod *v1.Pod, c *v1.Container) *runtimeapi.SecurityProfile {
	p := ptr.Deref(c.SecurityContext, v1.SecurityContext{}).AppArmorProfile
	setDefault(&p, annotatedAppArmor(pod.Annotations[v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]))
	setDefault(&p, ptr.Deref(pod.Spec.SecurityContext, v1.PodSecurityContext{}).AppArmorProfile)
	if p == nil {
		return nil
	}
	switch p.Type {
	case v1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	case v1.AppArmorProfileTypeLocalhost:
		return &runtimeapi.SecurityProfile{
			ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: ptr.Deref(p.LocalhostProfile, ""),
		}
	default:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	}
}

func annotatedAppArmor(value string) *v1.AppArmorProfile {
	switch value {
	case v1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
	case v1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	}
	if local, ok := strings.CutPrefix(value, v1.DeprecatedAppArmorBetaProfileNamePrefix); ok {
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
	}
	return nil
}

func capabilities(c *v1.Capabilities) *runtimeapi.Capability {
	if c == nil {
		return nil
	}
	out := &runtimeapi.Capability{}
	for _, name := range c.Add {
		out.AddCapabilities = append(out.AddCapabilities, string(name))
	}
	for _, name := range c.Drop {
		out.DropCapabilities = append(out.DropCapabilities, string(name))
	}
	return out
}

func selinux(o *v1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

func int64Value(v *int64) *runtimeapi.Int64Value {
	if v == nil {
		return nil
	}
	return &runtimeapi.Int64Value{Value: *v}
}
