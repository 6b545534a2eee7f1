// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// TestHostWithAPolicyRefusesWhatItsOwnerDoesNotAllow: on a host of its own.
func TestHostWithAPolicyRefusesWhatItsOwnerDoesNotAllow(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "policy.yaml")
	must(t, os.WriteFile(rules, fmt.Appendf(nil, `
apiVersion: tombolo.dev/v1alpha1
kind: HostPolicy
allow: {hostPaths: [{path: %q}], capabilities: [NET_ADMIN]}
`, filepath.Join(require(t).cluster.StateDir(), "hosts", "policed", "marks")), 0o600))
	s := require(t).ownSite(t, "policed", "--policy", rules)
	k := on(t, s)

	allowed := k.create(k.pod("allowed", `touch /marks/allowed; exec sleep 1d`, func(p *v1.Pod) {
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Capabilities: &v1.Capabilities{Add: []v1.Capability{"NET_ADMIN"}}}
	}))
	container := func(change func(*v1.SecurityContext)) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{}
			change(p.Spec.Containers[0].SecurityContext)
		}
	}
	secret := t.TempDir()
	for name, tt := range map[string]struct {
		change         func(*v1.Pod)
		reason, refuse string
	}{
		"privileged": {container(func(c *v1.SecurityContext) { c.Privileged = ptr.To(true) }), "FailedCreatePodSandBox", "privileged pods"},
		"capability": {container(func(c *v1.SecurityContext) {
			c.Capabilities = &v1.Capabilities{Add: []v1.Capability{"SYS_TIME"}}
		}), "Failed", "capability SYS_TIME"},
		"host-path": {func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "secret", VolumeSource: v1.VolumeSource{
				HostPath: &v1.HostPathVolumeSource{Path: secret, Type: ptr.To(v1.HostPathDirectory)}}})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "secret", MountPath: "/secret"})
		}, "FailedMount", "host path " + secret},
		"link": {func(p *v1.Pod) {
			must(t, os.Symlink(secret, filepath.Join(s.marks(), "link")))
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "secret", VolumeSource: v1.VolumeSource{
				HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(s.marks(), "link"), Type: ptr.To(v1.HostPathDirectory)}}})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "secret", MountPath: "/secret"})
		}, "FailedMount", "host path"},
	} {
		pod := k.create(k.pod(name, `touch /marks/`+name+`; exec sleep 1d`, tt.change))
		k.awaitEvent(pod, tt.reason, "the policy of the host does not allow "+tt.refuse)
		if p, err := k.get(pod); err != nil || p.Status.Phase != v1.PodPending {
			t.Errorf("%s: %v, %+v", name, err, p.Status)
		}
		if _, err := os.Stat(k.mark(name)); err == nil {
			t.Errorf("%s runs", name)
		}
	}
	k.awaitPodReady(allowed)
	if log, err := os.ReadFile(s.hostProc.LogFile()); err != nil || !strings.Contains(string(log), "refused what a pod asks of this machine") {
		t.Errorf("the host does not tell its owner: %v", err)
	}
}

// TestDirectoriesThatPodsSwapOnAHostWithAPolicyLeadNowhere has a pod that may write into a directory of the host and replaces a part of it by
// a link out of it and back, without pause, while others that mount that part are started again and again. On a host of its own.
func TestDirectoriesThatPodsSwapOnAHostWithAPolicyLeadNowhere(t *testing.T) {
	t.Parallel()
	rules := filepath.Join(t.TempDir(), "policy.yaml")
	must(t, os.WriteFile(rules, fmt.Appendf(nil, `
apiVersion: tombolo.dev/v1alpha1
kind: HostPolicy
allow: {hostPaths: [{path: %q}]}
`, filepath.Join(require(t).cluster.StateDir(), "hosts", "swapped", "marks")), 0o600))
	s := require(t).ownSite(t, "swapped", "--policy", rules)
	k := on(t, s)
	secret := t.TempDir() // where the policy allows nothing
	must(t, os.Chmod(secret, 0o777))
	must(t, os.WriteFile(filepath.Join(secret, "gold"), []byte("gold"), 0o666))
	part := k.mark("part")
	must(t, os.MkdirAll(part, 0o777))
	k.awaitPodReady(k.create(k.pod("swapper", `cd /marks; ln -s `+secret+` link
		while :; do i=$((i+1)); test $((i % 50)) -gt 0 || sleep 1; mv part away; mv link part; mv part link; mv away part; done`)))
	pods := make([]*v1.Pod, 4)
	for i := range pods {
		pods[i] = k.create(k.pod(fmt.Sprintf("hand-%d", i), grab+"echo x >> /marks/grabs; exit 1", func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "loot", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: part}}})
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "loot", MountPath: "/loot"})
		}))
	}
	eventually(t, usual, "containers got the directory", func() error {
		if n := k.lines("grabs"); n < 6 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	for _, pod := range pods {
		k.remove(pod)
	}
	for _, pod := range pods {
		k.awaitGone(pod, usual)
		k.awaitCollected(pod)
	}
	if entries, err := os.ReadDir(secret); err != nil || len(entries) != 1 {
		t.Errorf("a pod wrote behind the link: %v, %v", entries, err)
	}
	if _, err := os.Stat(k.mark("breach")); err == nil {
		t.Error("a pod saw what is behind the link")
	}
	if mounts, err := k.host.Exec(t.Context(), "cat", "/proc/self/mountinfo"); err != nil || strings.Contains(mounts, "/pods/"+string(pods[0].UID)) {
		t.Errorf("something is left mounted: %s, %v", mounts, err)
	}
}
