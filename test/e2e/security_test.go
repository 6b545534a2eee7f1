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

// TestContainerRunsAsItsSecurityContextSays: a pod of the restricted kind looks at itself.
func TestContainerRunsAsItsSecurityContextSays(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("restricted", `grep -E '^(Uid|Gid|Groups|CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\t ' ' ' > /marks/status
touch /written 2>/dev/null && echo writable >> /marks/status; true`, restart(v1.RestartPolicyNever), func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(1000)), RunAsGroup: ptr.To(int64(3000)),
			SupplementalGroups: []int64{4000}, SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
		}
		p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &v1.Capabilities{Drop: []v1.Capability{"ALL"}, Add: []v1.Capability{"NET_BIND_SERVICE"}},
		}
	}))
	k.awaitPhase(pod, v1.PodSucceeded)
	got, err := os.ReadFile(k.mark("status"))
	must(t, err)
	for _, want := range []string{
		"Uid: 1000 1000 1000 1000\n", "Gid: 3000 3000 3000 3000\n", "Groups: 3000 4000 \n",
		"CapEff: 0000000000000000\n", "CapBnd: 0000000000000400\n", "NoNewPrivs: 1\n", "Seccomp: 2\n",
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("missing %q in:\n%s", want, got)
		}
	}
	if strings.Contains(string(got), "writable") {
		t.Error("the root file system is writable")
	}
}

// TestPrivilegedContainerHasEveryDeviceOfTheHost: a device that only the host has.
func TestPrivilegedContainerHasEveryDeviceOfTheHost(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	for name, privileged := range map[string]bool{"privileged": true, "plain": false} {
		pod := k.create(k.pod(name, fmt.Sprintf(`test -e /dev/kmsg && echo yes > /marks/%[1]s || echo no > /marks/%[1]s`, name),
			restart(v1.RestartPolicyNever), func(p *v1.Pod) {
				p.Spec.Containers[0].SecurityContext = &v1.SecurityContext{Privileged: &privileged}
			}))
		k.awaitPhase(pod, v1.PodSucceeded)
		got, err := os.ReadFile(k.mark(name))
		must(t, err)
		if (strings.TrimSpace(string(got)) == "yes") != privileged {
			t.Errorf("%s: /dev/kmsg is there: %s", name, got)
		}
	}
}

// TestImageThatRunsAsRootIsRefusedToANonRootPod and recovers by itself when the pod names a user: nothing is counted as a
// restart.
func TestImageThatRunsAsRootIsRefusedToANonRootPod(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("root", `sleep 1d`, func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: ptr.To(true)}
	}))
	got := k.await(pod, usual, "a waiting reason", func(p *v1.Pod) error {
		for _, st := range p.Status.ContainerStatuses {
			if w := st.State.Waiting; w != nil && w.Reason == "CreateContainerConfigError" {
				return nil
			}
		}
		return fmt.Errorf("statuses %+v", p.Status.ContainerStatuses)
	})
	st := got.Status.ContainerStatuses[0]
	if !strings.Contains(st.State.Waiting.Message, "container has runAsNonRoot and image will run as root") || st.RestartCount != 0 {
		t.Errorf("message %q, restarts %d", st.State.Waiting.Message, st.RestartCount)
	}
	k.remove(pod)
	k.awaitGone(pod, usual)
}

// TestContainersShareProcessesWhenThePodSaysSo: one sees the other's program.
func TestContainersShareProcessesWhenThePodSaysSo(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("shared", `for i in $(seq 100); do ps | grep -q '[s]leep 4242' && touch /marks/seen && exit 0; sleep 0.1; done; exit 1`,
		restart(v1.RestartPolicyNever), func(p *v1.Pod) {
			p.Spec.ShareProcessNamespace = ptr.To(true)
			p.Spec.Containers = append(p.Spec.Containers, shell("other", `sleep 4242 & until test -e /marks/seen; do sleep 0.1; done; kill %1`))
		}))
	k.awaitPhase(pod, v1.PodSucceeded)
}

// TestContainerHasTheGroupOfItsPodAndTheUserOfItsImage: the runtime takes no group without a user.
func TestContainerHasTheGroupOfItsPodAndTheUserOfItsImage(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPhase(k.create(k.pod("group", `echo -n "$(id -u) $(id -g)" > /dev/termination-log`, restart(v1.RestartPolicyNever), func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsGroup: ptr.To(int64(3000))}
	})), v1.PodSucceeded)
	if got := pod.Status.ContainerStatuses[0].State.Terminated.Message; got != "0 3000" {
		t.Errorf("user and group are %q", got)
	}
}

// TestAnyUserCanLeaveATerminationMessage, not only root.
func TestAnyUserCanLeaveATerminationMessage(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPhase(k.create(k.pod("farewell", `echo -n "bye from $(id -u)" > /dev/termination-log`, restart(v1.RestartPolicyNever), func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To(int64(1000))}
	})), v1.PodSucceeded)
	if got := pod.Status.ContainerStatuses[0].State.Terminated.Message; got != "bye from 1000" {
		t.Errorf("the message is %q", got)
	}
}

// TestSeccompProfileBesideTheNodeIsBroughtToTheHost: the pod names a profile that nobody has put on the host.
func TestSeccompProfileBesideTheNodeIsBroughtToTheHost(t *testing.T) {
	t.Parallel()
	profiles := t.TempDir()
	must(t, os.Mkdir(filepath.Join(profiles, "deny"), 0o755))
	must(t, os.WriteFile(filepath.Join(profiles, "deny", "mkdir.json"), []byte(`{"defaultAction": "SCMP_ACT_ALLOW",
		"syscalls": [{"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}]}`), 0o600))
	s := require(t).newSite("sealed")
	s.nodeArgs = []string{"--seccomp-profile-dir", profiles}
	s.startFor(t)
	k := on(t, s)
	localhost := func(name string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeLocalhost, LocalhostProfile: &name}}
		}
	}
	pod := k.awaitPodReady(k.create(k.pod("sealed", `mkdir /tmp/x 2> /marks/why && echo made >> /marks/why; exec sleep 1d`, localhost("deny/mkdir.json"))))
	k.awaitLines("why", 1)
	if why := k.read("why"); !strings.Contains(why, "not supported") {
		t.Errorf("mkdir: %q", why)
	}
	k.remove(pod)
	k.awaitGone(pod, usual)
	k.awaitCollected(pod)
	missing := k.create(k.pod("missing", `exec sleep 1d`, localhost("none.json")))
	k.await(missing, usual, "says what is missing", func(p *v1.Pod) error {
		for _, st := range p.Status.ContainerStatuses {
			if w := st.State.Waiting; w != nil && w.Reason == "CreateContainerError" && strings.Contains(w.Message, "none.json") {
				return nil
			}
		}
		return errNotYet
	})
}
