// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// reasonAppArmor is the kubelet's reason for pods that ask for a profile the host cannot give.
const reasonAppArmor = "AppArmor"

// checkAppArmor refuses a pod that asks for a profile on a host without AppArmor, and a profile without a name.
func checkAppArmor(pod *v1.Pod, facts Facts) *Rejection {
	profiles := appArmorProfiles(pod)
	required := func(p *v1.AppArmorProfile) bool { return p.Type != v1.AppArmorProfileTypeUnconfined }
	if facts.Host == nil || !slices.ContainsFunc(profiles, required) {
		return nil
	}
	if !facts.Host.AppArmor {
		return cannotEnforce("AppArmor is not enabled on the host")
	}
	for _, p := range profiles {
		if name := ptr.Deref(p.LocalhostProfile, ""); p.Type == v1.AppArmorProfileTypeLocalhost && strings.TrimSpace(name) == "" {
			return cannotEnforce(fmt.Sprintf("invalid empty AppArmor profile name: %q", name))
		}
	}
	return nil
}

func cannotEnforce(why string) *Rejection {
	return &Rejection{Reason: reasonAppArmor, Message: "Cannot enforce AppArmor: " + why}
}

// appArmorProfiles are all that the pod names, in fields and in the annotations that came before them.
func appArmorProfiles(pod *v1.Pod) []*v1.AppArmorProfile {
	var out []*v1.AppArmorProfile
	if sc := pod.Spec.SecurityContext; sc != nil && sc.AppArmorProfile != nil {
		out = append(out, sc.AppArmorProfile)
	}
	for _, c := range podrules.Containers(pod) {
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			out = append(out, c.SecurityContext.AppArmorProfile)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Annotations)) {
		if strings.HasPrefix(key, v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			out = append(out, annotatedProfile(pod.Annotations[key]))
		}
	}
	return out
}

func annotatedProfile(value string) *v1.AppArmorProfile {
	if value == v1.DeprecatedAppArmorBetaProfileNameUnconfined {
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeUnconfined}
	}
	if name, ok := strings.CutPrefix(value, v1.DeprecatedAppArmorBetaProfileNamePrefix); ok {
		return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	return &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}
}
