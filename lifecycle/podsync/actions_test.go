// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// testPod makes a pod; names before "|" are init containers: "setup|web,side".
func testPod(policy v1.RestartPolicy, containers string) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop", UID: "uid-1"},
		Spec:       v1.PodSpec{RestartPolicy: policy},
	}
	before, regular, hasInit := strings.Cut(containers, "|")
	if !hasInit {
		before, regular = "", containers
	}
	pod.Spec.InitContainers = testContainers(before)
	pod.Spec.Containers = testContainers(regular)
	return pod
}

func testContainers(names string) []v1.Container {
	var out []v1.Container
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			out = append(out, v1.Container{Name: name, Image: "registry.test/" + name + ":1"})
		}
	}
	return out
}

// testStatus makes an observation. Sandboxes are "1+" (attempt 1, ready) or "0-", newest first. Containers are
// "NAME@SANDBOX STATE", newest first, with states created, running, unknown, exitN, oom (exit 0, OOMKilled) and
// changed (running, from another definition) and unmarked (running, from nobody knows what).
func testStatus(t *testing.T, pod *v1.Pod, sandboxes string, containers ...string) *cri.PodStatus {
	t.Helper()
	status := &cri.PodStatus{UID: pod.UID}
	for s := range strings.FieldsSeq(sandboxes) {
		var attempt uint32
		if _, err := fmt.Sscanf(s, "%d", &attempt); err != nil {
			t.Fatal(err)
		}
		status.Sandboxes = append(status.Sandboxes, cri.SandboxStatus{
			ID: fmt.Sprintf("s%d", attempt), Attempt: attempt, Ready: strings.HasSuffix(s, "+"),
			HasNetwork: true, IPs: []string{"10.0.0.1"},
		})
	}
	for i, text := range containers {
		where, state, _ := strings.Cut(text, " ")
		name, sandbox, _ := strings.Cut(where, "@")
		record := cri.ContainerStatus{ID: fmt.Sprintf("%s#%d", name, i), Name: name, SandboxID: "s" + sandbox}
		for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			if c.Name == name {
				record.Hash = cri.ContainerHash(&c)
			}
		}
		setState(t, &record, state)
		status.Containers = append(status.Containers, record)
	}
	return status
}

func setState(t *testing.T, record *cri.ContainerStatus, state string) {
	t.Helper()
	switch state {
	case "created":
		record.State = cri.ContainerCreated
	case "running":
		record.State = cri.ContainerRunning
	case "changed":
		record.State, record.Hash = cri.ContainerRunning, "bad"
	case "unmarked":
		record.State, record.Hash = cri.ContainerRunning, ""
	case "unknown":
		record.State = cri.ContainerUnknown
	case "oom":
		record.State, record.Reason = cri.ContainerExited, "OOMKilled"
	default:
		record.State = cri.ContainerExited
		if _, err := fmt.Sscanf(state, "exit%d", &record.ExitCode); err != nil {
			t.Fatalf("state %q: %v", state, err)
		}
	}
}

// summary writes actions as text, in their order.
func summary(pod *v1.Pod, a Actions) string {
	var out []string
	if a.KillPod {
		out = append(out, "kill pod")
	}
	for _, k := range a.ToKill {
		out = append(out, fmt.Sprintf("kill %s (%s)", k.Container.ID, k.Reason))
	}
	if a.CreateSandbox {
		out = append(out, fmt.Sprintf("sandbox %d", a.Attempt))
	}
	for _, record := range a.ToRemove {
		out = append(out, "remove "+record.ID)
	}
	for _, record := range a.ToHook {
		out = append(out, "hook "+record.ID)
	}
	for _, i := range a.EphemeralToStart {
		out = append(out, "ephemeral "+pod.Spec.EphemeralContainers[i].Name)
	}
	for _, i := range a.InitToStart {
		out = append(out, "init "+pod.Spec.InitContainers[i].Name)
	}
	for _, i := range a.ToStart {
		out = append(out, "start "+pod.Spec.Containers[i].Name)
	}
	return strings.Join(out, "; ")
}

func TestComputeActions(t *testing.T) {
	for _, tc := range []struct {
		name       string
		policy     v1.RestartPolicy
		containers string
		sandboxes  string
		records    []string
		want       string
	}{
		// New sandboxes.
		{"new pod", always, "web,side", "", nil, "sandbox 0; start web; start side"},
		{"new pod with init containers", always, "one,two|web", "", nil, "sandbox 0; init one"},
		{"sandbox made and nothing else", always, "web", "0+", nil, "start web"},
		{"sandbox died", always, "web,side", "0-", []string{"web@0 exit137", "side@0 running"}, "kill pod; sandbox 1; start web; start side"},
		{"sandbox died, init containers run again", always, "one,two|web", "0-", []string{"web@0 exit137", "two@0 exit0", "one@0 exit0"}, "kill pod; sandbox 1; init one"},
		{"two sandboxes ready", always, "web", "1+ 0+", []string{"web@1 running"}, "kill pod; sandbox 2; start web"},
		{"OnFailure keeps what succeeded", onFailure, "web,side", "0-", []string{"web@0 exit0", "side@0 exit1"}, "kill pod; sandbox 1; start side"},
		{"OnFailure, all succeeded", onFailure, "web", "0-", []string{"web@0 exit0"}, "kill pod"},
		{"Always starts what succeeded", always, "web", "0-", []string{"web@0 exit0"}, "kill pod; sandbox 1; start web"},
		{"Never, first sandbox failed before anything ran", never, "web", "0-", nil, "kill pod; sandbox 1; start web"},
		{"Never, third try for a sandbox", never, "one|web", "2- 1- 0-", nil, "kill pod; sandbox 3; init one"},
		{"Never, container was created and not started", never, "web", "0-", []string{"web@0 created"}, "kill pod; sandbox 1; start web"},
		{"Never, container ran", never, "web", "0-", []string{"web@0 exit1"}, "kill pod"},
		{"Never, container may run", never, "web", "0-", []string{"web@0 unknown"}, "kill pod"},
		{"Never, sandbox removed after the run", never, "web", "", []string{"web@0 exit0"}, ""},
		{"Never, init container failed", never, "one|web", "0-", []string{"one@0 exit1"}, "kill pod"},
		{"Never, init container was cut short", never, "one|web", "0-", []string{"one@0 running"}, "kill pod"},
		{"Never, only init containers succeeded", never, "one|web", "0-", []string{"one@0 exit0"}, "kill pod; sandbox 1; init one"},
		{"container outlived the records of its sandbox", always, "web", "", []string{"web@0 running"}, "kill pod; sandbox 0; start web"},

		// Init containers.
		{"first init container", always, "one,two|web", "0+", nil, "init one"},
		{"init container runs", always, "one,two|web", "0+", []string{"one@0 running"}, ""},
		{"init container succeeded", always, "one,two|web", "0+", []string{"one@0 exit0"}, "init two"},
		{"last init container succeeded", always, "one,two|web,side", "0+", []string{"two@0 exit0", "one@0 exit0"}, "start web; start side"},
		{"init container failed", always, "one,two|web", "0+", []string{"one@0 exit1"}, "init one"},
		{"init container failed, OnFailure", onFailure, "one,two|web", "0+", []string{"one@0 exit1"}, "init one"},
		{"init container failed, Never", never, "one,two|web", "0+", []string{"one@0 exit1"}, "kill pod"},
		{"init container was killed for memory", always, "one|web", "0+", []string{"one@0 oom"}, "init one"},
		{"init container was killed for memory, Never", never, "one|web", "0+", []string{"one@0 oom"}, "kill pod"},
		{"init container was created and not started", always, "one,two|web", "0+", []string{"two@0 created", "one@0 exit0"}, "init two"},
		{"init container is unknown", always, "one,two|web", "0+", []string{"two@0 unknown", "one@0 exit0"}, "kill two#0 (Unknown); init two"},
		{"init container is unknown, Never", never, "one|web", "0+", []string{"one@0 unknown"}, "kill pod"},
		{"records in an older sandbox do not count", always, "one,two|web", "1+ 0-", []string{"web@0 exit137", "two@0 exit0", "one@0 exit0"}, "init one"},
		{"init ran again in the new sandbox", always, "one,two|web", "1+ 0-", []string{"one@1 exit0", "web@0 exit137", "two@0 exit0", "one@0 exit0"}, "init two"},
		{"earlier init records were removed", always, "one,two|web", "0+", []string{"two@0 exit0"}, "start web"},
		{"all init records were removed while main runs", always, "one,two|web", "0+", []string{"web@0 running"}, ""},
		{"all init records were removed and main crashed", always, "one,two|web", "0+", []string{"web@0 exit1"}, "start web"},
		{"main was created and not started", always, "one|web", "0+", []string{"web@0 created"}, "start web"},
		{"older init container still runs", always, "one|web", "0+", []string{"one@0 exit1", "one@0 running"}, "kill one#1 (Stray); init one"},

		// Regular containers.
		{"all run", always, "web,side", "0+", []string{"web@0 running", "side@0 running"}, ""},
		{"one is missing", never, "web,side", "0+", []string{"web@0 running"}, "start side"},
		{"exited, Always", always, "web,side", "0+", []string{"web@0 exit0", "side@0 running"}, "start web"},
		{"succeeded, OnFailure", onFailure, "web,side", "0+", []string{"web@0 exit0", "side@0 running"}, ""},
		{"failed, OnFailure", onFailure, "web,side", "0+", []string{"web@0 exit2", "side@0 running"}, "start web"},
		{"failed, Never", never, "web,side", "0+", []string{"web@0 exit2", "side@0 running"}, ""},
		{"all ended, Never", never, "web,side", "0+", []string{"web@0 exit2", "side@0 exit0"}, "kill pod"},
		{"all succeeded, OnFailure", onFailure, "web", "0+", []string{"web@0 exit0"}, "kill pod"},
		{"created", never, "web", "0+", []string{"web@0 created"}, "start web"},
		{"unknown", always, "web", "0+", []string{"web@0 unknown"}, "kill web#0 (Unknown); start web"},
		{"unknown, Never", never, "web", "0+", []string{"web@0 unknown"}, "kill pod"},
		{"one of two unknown, Never", never, "web,log", "0+", []string{"web@0 unknown", "log@0 running"}, "kill web#0 (Unknown)"},
		{"definition changed", always, "web,side", "0+", []string{"web@0 changed", "side@0 running"}, "kill web#0 (DefinitionChanged); start web"},
		{"definition changed, Never", never, "web", "0+", []string{"web@0 changed"}, "kill web#0 (DefinitionChanged); start web"},
		{"definition is not known", always, "web", "0+", []string{"web@0 unmarked"}, ""},
		{"an ended container has an old definition", never, "web,side", "0+", []string{"web@0 exit0", "side@0 running"}, ""},
		{"two of a name run: the newer stays", always, "web", "0+", []string{"web@0 running", "web@0 running"}, "kill web#1 (Stray)"},
		{"an older one may run while the newest ended", always, "web", "0+", []string{"web@0 exit1", "web@0 unknown"}, "kill web#1 (Stray); start web"},
		{"an older one runs while the newest ended, Never", never, "web", "0+", []string{"web@0 exit1", "web@0 running"}, "kill pod"},
		{"the newest runs in an older sandbox", always, "web", "1+ 0-", []string{"web@0 running"}, "kill web#0 (Stray)"},
		{"the newest runs in an older sandbox with an old definition", always, "web", "1+ 0-", []string{"web@0 changed"}, "kill web#0 (Stray)"},
		{"the newest is unknown in an older sandbox", always, "web", "1+ 0-", []string{"web@0 unknown"}, "kill web#0 (Stray); start web"},
		{"succeeded in an older sandbox, OnFailure", onFailure, "web,side", "1+ 0-", []string{"side@1 running", "web@0 exit0"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod(tc.policy, tc.containers)
			status := testStatus(t, pod, tc.sandboxes, tc.records...)
			if got := summary(pod, ComputeActions(Input{Pod: pod, Status: status})); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
			deleted := pod.DeepCopy()
			deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			if got := summary(deleted, ComputeActions(Input{Pod: deleted, Status: status})); got != "" {
				t.Errorf("a pod that is being deleted gets %q", got)
			}
		})
	}
}

func TestComputeActionsNamesTheSandboxToUse(t *testing.T) {
	pod := testPod(v1.RestartPolicyAlways, "web")
	for _, tc := range []struct {
		name, sandboxes, wantID string
		wantAttempt             uint32
	}{
		{"none", "", "", 0},
		{"ready", "3+ 2-", "s3", 3},
		{"not ready", "3-", "", 4},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := ComputeActions(Input{Pod: pod, Status: testStatus(t, pod, tc.sandboxes)})
			if a.SandboxID != tc.wantID || a.Attempt != tc.wantAttempt {
				t.Errorf("sandbox %q attempt %d, want %q attempt %d", a.SandboxID, a.Attempt, tc.wantID, tc.wantAttempt)
			}
		})
	}
	if a := ComputeActions(Input{Pod: pod}); !a.CreateSandbox || a.KillPod {
		t.Errorf("without an observation: %+v, want a sandbox and no kill", a)
	}
}

func TestKillMessages(t *testing.T) {
	pod := testPod(v1.RestartPolicyAlways, "setup|web")
	for record, want := range map[string]string{
		"web@0 changed":   "Container web definition changed, will be restarted",
		"web@0 unknown":   `Container is in "unknown" state, try killing it before restart`,
		"setup@0 unknown": `Init container is in "unknown" state, try killing it before restart`,
	} {
		a := ComputeActions(Input{Pod: pod, Status: testStatus(t, pod, "0+", record)})
		var got []string
		for _, k := range a.ToKill {
			got = append(got, k.Message)
		}
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("%s: messages (-want +got):\n%s", record, diff)
		}
	}
}

func TestEphemeralContainersOutsideTheSandboxAreStrays(t *testing.T) {
	pod := testPod(v1.RestartPolicyAlways, "web")
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	status := testStatus(t, pod, "1+ 0-", "web@1 running", "debug@0 running")
	if got := summary(pod, ComputeActions(Input{Pod: pod, Status: status})); got != "kill debug#1 (Stray)" {
		t.Errorf("got %q, want only the end of the stray", got)
	}
}
