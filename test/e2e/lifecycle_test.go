// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/test/images"
)

// TestPodUsesEverythingThatIsSupported runs one pod with all that the first release covers.
func TestPodUsesEverythingThatIsSupported(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("whole", `echo "$GREETING $(cat /shared/prepared) on $(hostname) in $(pwd)"; touch /marks/up; exec sleep 1d`,
		initContainer("first", `echo one > /shared/prepared`),
		initContainer("second", `echo two >> /shared/prepared; test "$(head -n 1 /shared/prepared)" = one`),
		func(p *v1.Pod) {
			p.Spec.Hostname = "lighthouse"
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "shared", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
			p.Spec.Containers = append(p.Spec.Containers, shell("side",
				`echo "$@"; until cat /marks/up; do sleep 0.1; done 2> /dev/null; touch /ro/x 2> /dev/null || touch /marks/readonly; exec sleep 1d`))
			shared := v1.VolumeMount{Name: "shared", MountPath: "/shared"}
			for i := range p.Spec.InitContainers {
				p.Spec.InitContainers[i].VolumeMounts = append(p.Spec.InitContainers[i].VolumeMounts, shared)
			}
			main, side := &p.Spec.Containers[0], &p.Spec.Containers[1]
			main.WorkingDir = "/tmp"
			main.Env = []v1.EnvVar{{Name: "WHO", Value: "islander"}, {Name: "GREETING", Value: "hello $(WHO), $$(WHO), $(NOBODY)"}}
			main.VolumeMounts = append(main.VolumeMounts, shared)
			side.Args = []string{"sh", "a b", "$(X)"}
			side.VolumeMounts = append(side.VolumeMounts, v1.VolumeMount{Name: "marks", MountPath: "/ro", ReadOnly: true})
		}))
	pod = k.awaitPodReady(pod)
	k.awaitMark("readonly")

	if got, want := k.kubectl("logs", "whole", "-c", "main"), "hello islander, $(WHO), $(NOBODY) one\ntwo on lighthouse in /tmp\n"; got != want {
		t.Errorf("main wrote %q, want %q", got, want)
	}
	if got, want := k.kubectl("logs", "whole", "-c", "side"), "a b $(X)\n"; got != want {
		t.Errorf("side wrote %q, want %q", got, want)
	}
	ip, err := netip.ParseAddr(pod.Status.PodIP)
	if err != nil || !k.host.PodCIDR().Contains(ip) {
		t.Errorf("the pod's address %q is not of the host's %s", pod.Status.PodIP, k.host.PodCIDR())
	}
	if pod.Status.HostIP == "" || pod.Status.QOSClass != v1.PodQOSBestEffort || pod.Status.StartTime == nil {
		t.Errorf("incomplete status %+v", pod.Status)
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if c.State.Terminated == nil || c.State.Terminated.Reason != "Completed" {
			t.Errorf("init container %s: %+v", c.Name, c.State)
		}
	}
	for _, e := range []struct{ reason, text string }{
		{"Scheduled", k.name}, {"Pulled", "already present on machine"}, {"Created", "Container created"}, {"Started", "Container started"},
	} {
		k.awaitEvent(pod, e.reason, e.text)
	}
	k.remove(pod)
	k.awaitGone(pod, usual)
	k.awaitCollected(pod)
}

func TestPhasesFollowExitCodesAndRestartPolicy(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	for _, tc := range []struct {
		name, script string
		policy       v1.RestartPolicy
		phase        v1.PodPhase
		exitCode     int32
		reason       string
		restarts     int32
	}{
		{name: "never-success", script: `exit 0`, policy: v1.RestartPolicyNever, phase: v1.PodSucceeded, reason: "Completed"},
		{name: "never-failure", script: `printf because > /dev/termination-log; exit 3`, policy: v1.RestartPolicyNever, phase: v1.PodFailed, exitCode: 3, reason: "Error"},
		{name: "on-failure-twice", script: `echo x >> /marks/twice; test $(wc -l < /marks/twice) -ge 2`, policy: v1.RestartPolicyOnFailure, phase: v1.PodSucceeded, reason: "Completed", restarts: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			k := k.part(t)
			pod := k.awaitPhase(k.create(k.pod(tc.name, tc.script, restart(tc.policy))), tc.phase)
			got := pod.Status.ContainerStatuses[0]
			if got.State.Terminated == nil {
				t.Fatalf("the container is %+v", got.State)
			}
			if got.State.Terminated.ExitCode != tc.exitCode || got.State.Terminated.Reason != tc.reason || got.RestartCount != tc.restarts {
				t.Errorf("exit code %d, reason %s, %d restarts, want %d, %s, %d", got.State.Terminated.ExitCode, got.State.Terminated.Reason, got.RestartCount,
					tc.exitCode, tc.reason, tc.restarts)
			}
			if tc.exitCode == 3 && got.State.Terminated.Message != "because" {
				t.Errorf("termination message %q", got.State.Terminated.Message)
			}
		})
	}
}

func TestCrashLoopBacksOff(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("crash", `echo x >> /marks/starts; exit 1`, restart(v1.RestartPolicyAlways)))
	pod = k.await(pod, 2*usual, "is in back-off after two restarts", func(p *v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if c.RestartCount >= 2 && c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff" {
				return nil
			}
		}
		return fmt.Errorf("containers %+v", p.Status.ContainerStatuses)
	})
	status := pod.Status.ContainerStatuses[0]
	delay := 10 * time.Second << (status.RestartCount - 1) // a busy machine may have restarted it once more
	if want := fmt.Sprintf("back-off %v restarting failed container=main pod=crash_%s(%s)", delay, k.namespace, pod.UID); status.State.Waiting.Message != want {
		t.Errorf("message %q, want %q", status.State.Waiting.Message, want)
	}
	if status.LastTerminationState.Terminated == nil || status.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("last state %+v", status.LastTerminationState)
	}
	if n := k.lines("starts"); n != int(status.RestartCount)+1 {
		t.Errorf("%d starts with %d restarts", n, status.RestartCount)
	}
	k.awaitEvent(pod, "BackOff", "Back-off restarting failed container main in pod crash_"+k.namespace)
}

func TestImageThatCannotBeHadIsToldInTheKubeletsWords(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	waiting := func(reasons ...string) func(*v1.Pod) error {
		return func(p *v1.Pod) error {
			for _, c := range p.Status.ContainerStatuses {
				for _, reason := range reasons {
					if c.State.Waiting != nil && c.State.Waiting.Reason == reason {
						return nil
					}
				}
			}
			return fmt.Errorf("containers %+v", p.Status.ContainerStatuses)
		}
	}
	never := k.create(k.pod("never", "", func(p *v1.Pod) {
		p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "registry.invalid/none:v1", v1.PullNever
	}))
	// Nothing listens on that port of the host, so the pull fails at once.
	refused := k.create(k.pod("refused", "", func(p *v1.Pod) { p.Spec.Containers[0].Image = "127.0.0.1:1/none:v1" }))

	k.await(never, usual, "waits", waiting("ErrImageNeverPull"))
	k.awaitEvent(never, "ErrImageNeverPull", `Container image "registry.invalid/none:v1" is not present with pull policy of Never`)
	k.awaitEvent(refused, "Failed", `Failed to pull image "127.0.0.1:1/none:v1": `)
	k.awaitEvent(refused, "Failed", "Error: ErrImagePull")
	pod := k.await(refused, usual, "backs off", waiting("ImagePullBackOff"))
	message := pod.Status.ContainerStatuses[0].State.Waiting.Message
	if !strings.HasPrefix(message, `Back-off pulling image "127.0.0.1:1/none:v1": ErrImagePull: `) || !strings.Contains(message, "connection refused") {
		t.Errorf("message %q does not hold the real error", message)
	}
	k.remove(pod)
	k.awaitGone(pod, usual)
}

// TestUnsupportedFieldsAreRefusedByName is the promise that nothing is silently left out.
func TestUnsupportedFieldsAreRefusedByName(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("wants-more", "exec sleep 1d", func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes,
			v1.Volume{Name: "nfs", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "192.0.2.1", Path: "/"}}},
			v1.Volume{Name: "fc", VolumeSource: v1.VolumeSource{FC: &v1.FCVolumeSource{TargetWWNs: []string{"x"}, Lun: ptr.To[int32](0)}}})
	}))
	pod = k.awaitPhase(pod, v1.PodFailed)
	if pod.Status.Reason != "UnsupportedPodSpec" || !strings.HasPrefix(pod.Status.Message, "Pod was rejected: ") {
		t.Errorf("status %s: %s", pod.Status.Reason, pod.Status.Message)
	}
	for _, part := range []string{"spec.volumes[1].nfs", "mount it on the host and use a hostPath", "spec.volumes[2].fc"} {
		if !strings.Contains(pod.Status.Message, part) {
			t.Errorf("the message does not name %s: %s", part, pod.Status.Message)
		}
		k.awaitEvent(pod, "UnsupportedPodSpec", part)
	}
	if left := k.containers(t, pod.UID); len(left) > 0 {
		t.Errorf("%d containers were made", len(left))
	}
	k.remove(pod)
	k.awaitGone(pod, usual)
}

// TestUnsupportedChangeOfARunningPodIsToldAndKillsNothing has a debug container with a field that is refused.
func TestUnsupportedChangeOfARunningPodIsToldAndKillsNothing(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("steady", "exec sleep 1d")))
	before := k.running(t, pod.UID)
	changed := pod.DeepCopy()
	changed.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debugger", Image: images.Busybox,
		SecurityContext: &v1.SecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{RunAsUserName: new("some")}},
	}}}
	_, err := k.client().CoreV1().Pods(k.namespace).UpdateEphemeralContainers(t.Context(), pod.Name, changed, metav1.UpdateOptions{})
	must(t, err)
	k.awaitEvent(pod, "UnsupportedPodUpdate", "spec.ephemeralContainers[0].securityContext.windowsOptions")
	// The debug container may run by now, without that field.
	if after := k.running(t, pod.UID); after["main"] != before["main"] {
		t.Errorf("running before %v, after %v", before, after)
	}
}

func TestChangedImageRestartsItsContainerOnly(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("update", "exec sleep 1d", func(p *v1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, shell("other", "exec sleep 1d"))
	})))
	before := k.running(t, pod.UID)
	k.kubectl("set", "image", "pod/update", "main=docker.io/library/busybox:1.37")
	k.awaitEvent(pod, "Killing", "Container main definition changed")
	k.await(pod, usual, "runs the new image", func(p *v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if c.Name == "main" && c.RestartCount == 1 && c.State.Running != nil && strings.HasSuffix(c.Image, "busybox:1.37") {
				return ready(p)
			}
		}
		return fmt.Errorf("containers %+v", p.Status.ContainerStatuses)
	})
	after := k.running(t, pod.UID)
	if after["other"] != before["other"] || after["main"] == before["main"] {
		t.Errorf("running before %v, after %v", before, after)
	}
}

// TestHangingPullDelaysNoOtherPodAndEndsWithItsPod has a registry that accepts connections and never answers.
func TestHangingPullDelaysNoOtherPodAndEndsWithItsPod(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	const address = "127.0.0.1:" + deafPort
	k.deafRegistry()
	hung := k.create(k.pod("hung", "exit 0", func(p *v1.Pod) { p.Spec.Containers[0].Image = address + "/none:v1" }))
	k.awaitEvent(hung, "Pulling", `Pulling image "`+address+`/none:v1"`)
	k.awaitPodReady(k.create(k.pod("quick", "exec sleep 1d")))
	if got, err := k.get(hung); err != nil || got.Status.Phase != v1.PodPending {
		t.Errorf("the pull does not hang: %v", errors.Join(err, fmt.Errorf("%+v", got.Status.ContainerStatuses)))
	}
	begin := time.Now()
	k.remove(hung)
	k.awaitGone(hung, usual)
	if took := time.Since(begin); took > usual/2 { // the pull would hang for ever
		t.Errorf("deleting a pod that pulls took %v", took)
	}
	k.awaitCollected(hung)
}

func TestMissingHostPathIsToldAndAwaited(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	kind := v1.HostPathDirectory
	pod := k.create(k.pod("patient", "exec sleep 1d", func(p *v1.Pod) {
		p.Spec.Volumes[0].HostPath = &v1.HostPathVolumeSource{Path: k.mark("later"), Type: &kind}
	}))
	k.awaitEvent(pod, "FailedMount", `MountVolume.SetUp failed for volume "marks" : hostPath type check failed, `+k.mark("later")+" is not a directory")
	must(t, os.Mkdir(k.mark("later"), 0o755))
	k.awaitPodReady(pod)
}

// TestControllersFindAnOrdinaryNode: what a Deployment and a Job need of a node.
func TestControllersFindAnOrdinaryNode(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	template := func(name, script string, policy v1.RestartPolicy) v1.PodTemplateSpec {
		pod := k.pod("", script, restart(policy))
		return v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: pod.Spec}
	}
	two, zero := int32(2), int32(0)
	_, err := k.client().AppsV1().Deployments(k.namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &two, Selector: metav1.SetAsLabelSelector(map[string]string{"app": "web"}),
			Template: template("web", "exec sleep 1d", v1.RestartPolicyAlways),
		},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = k.client().BatchV1().Jobs(k.namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "once"},
		Spec:       batchv1.JobSpec{BackoffLimit: &zero, Completions: &two, Template: template("once", "echo done", v1.RestartPolicyNever)},
	}, metav1.CreateOptions{})
	must(t, err)
	k.kubectl("rollout", "status", "deployment/web", "--timeout=90s")
	k.kubectl("wait", "--for=condition=Complete", "job/once", "--timeout=90s")
	k.kubectl("scale", "deployment/web", "--replicas=0")
	eventually(t, usual, "the replicas are gone", func() error {
		left := k.kubectl("get", "pods", "-l", "app=web", "-o", "name")
		if left != "" {
			return fmt.Errorf("%s", left)
		}
		return nil
	})
}
