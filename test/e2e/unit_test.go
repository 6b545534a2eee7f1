// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// unitFile is the systemd unit of tombolo host.
const unitFile = "../../deploy/systemd/tombolo-host.service"

// joinedFile is what such a unit has in addition on a host that joined by a token.
const joinedFile = "../../deploy/systemd/joined.conf"

// unitRights is the command that gives a program the rights of root that the unit leaves it, and no others.
func unitRights(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(unitFile)
	must(t, err)
	for line := range strings.Lines(string(data)) {
		if list, ok := strings.CutPrefix(strings.TrimSpace(line), "CapabilityBoundingSet="); ok {
			set := "-all"
			for capability := range strings.FieldsSeq(list) {
				set += ",+" + strings.ToLower(strings.TrimPrefix(capability, "CAP_"))
			}
			return []string{"setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=" + set}
		}
	}
	t.Fatalf("%s does not limit capabilities", unitFile)
	return nil
}

// TestHostNeedsNoOtherRightsThanItsUnitGives runs a pod that has the host do everything it does for pods: mounts, volumes of
// others, control groups, logs, and taking it all away.
func TestHostNeedsNoOtherRightsThanItsUnitGives(t *testing.T) {
	t.Parallel()
	s := require(t).newSite("confined")
	s.hostRights = unitRights(t)
	s.startFor(t)
	k := on(t, s)
	k.objects("settings", "v1")
	pod := k.awaitPodReady(k.create(k.pod("guest", `test "$(cat /config/a)" = "$(cat /secret/a)" && test "$(cat /part)" = v1 && test -s /both/token &&
		umask 077 && echo x > /scratch/x && echo y > /memory/y && mkdir /scratch/closed && echo fine && while :; do sleep 1; done`,
		volumes(map[string]v1.VolumeSource{
			"config": {ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
			"secret": {Secret: &v1.SecretVolumeSource{SecretName: "settings"}}, "both": tokenVolume("settings"),
			"scratch": {EmptyDir: &v1.EmptyDirVolumeSource{}},
			"memory":  {EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("1Mi"))}},
		}),
		func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321), RunAsUser: ptr.To[int64](1234), RunAsNonRoot: ptr.To(true)}
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "secret", MountPath: "/part", SubPath: "a"})
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi"), v1.ResourceCPU: resource.MustParse("1")}
			c.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-f", "/memory/y"}}}}
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
		})))
	if out := k.kubectl("logs", pod.Name); !strings.Contains(out, "fine") {
		t.Errorf("the log is %q", out)
	}
	if out := k.kubectl("exec", pod.Name, "--", "id", "-u"); strings.TrimSpace(out) != "1234" {
		t.Errorf("the user is %q", out)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.hostProc.PID()))
	must(t, err)
	if !strings.Contains(string(status), "NoNewPrivs:\t1") || strings.Contains(string(status), "CapBnd:\t000001ff") {
		t.Errorf("tombolo host is not confined, so the test shows nothing:\n%s", status)
	}
	k.remove(pod)
	k.awaitGone(pod, usual)
	k.awaitCollected(pod)
}
