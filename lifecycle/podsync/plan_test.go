// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// mark changes containers of a pod: "proxy:sidecar web:liveness web:startup web:never web:all42 web:restart42 web:hook".
func mark(t *testing.T, pod *v1.Pod, marks string) {
	t.Helper()
	rule := func(action v1.ContainerRestartRuleAction) []v1.ContainerRestartRule {
		return []v1.ContainerRestartRule{{Action: action, ExitCodes: &v1.ContainerRestartRuleOnExitCodes{
			Operator: v1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		}}}
	}
	for m := range strings.FieldsSeq(marks) {
		name, what, _ := strings.Cut(m, ":")
		c, _ := podrules.Find(pod, name)
		switch what {
		case "sidecar", "always":
			c.RestartPolicy = new(v1.ContainerRestartPolicyAlways)
		case "never":
			c.RestartPolicy = new(v1.ContainerRestartPolicyNever)
		case "onfailure":
			c.RestartPolicy = new(v1.ContainerRestartPolicyOnFailure)
		case "all42":
			c.RestartPolicyRules = rule(v1.ContainerRestartRuleActionRestartAllContainers)
		case "restart42":
			c.RestartPolicyRules = rule(v1.ContainerRestartRuleActionRestart)
		case "liveness":
			c.LivenessProbe = &v1.Probe{}
		case "startup":
			c.StartupProbe = &v1.Probe{}
		case "hook":
			c.Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"true"}}}}
		default:
			t.Fatalf("mark %q is not known", m)
		}
	}
}

// results reads probe results: "proxy#0:startup+ web#1:liveness-".
func results(t *testing.T, text string) fakeProbes {
	t.Helper()
	out := fakeProbes{}
	for f := range strings.FieldsSeq(text) {
		id, what, _ := strings.Cut(f, ":")
		result := podrules.ProbeSucceeded
		if strings.HasSuffix(what, "-") {
			result = podrules.ProbeFailed
		}
		kind := podrules.StartupProbe
		if strings.HasPrefix(what, "liveness") {
			kind = podrules.LivenessProbe
		}
		out[string(kind)+" "+id] = result
	}
	return out
}

type planCase struct {
	name       string
	policy     v1.RestartPolicy
	containers string
	marks      string
	records    []string
	probes     string
	want       string
}

func (tc planCase) run(t *testing.T) {
	pod := testPod(tc.policy, tc.containers)
	mark(t, pod, tc.marks)
	status := testStatus(t, pod, "0+", tc.records...)
	got := summary(pod, ComputeActions(Input{
		Pod: pod, Status: status, Probes: results(t, tc.probes),
		AwaitsPostStart: func(cs *cri.ContainerStatus) bool { return cs.State == cri.ContainerRunning },
	}))
	if got != tc.want {
		t.Errorf("got  %q\nwant %q", got, tc.want)
	}
}

const (
	always    = v1.RestartPolicyAlways
	onFailure = v1.RestartPolicyOnFailure
	never     = v1.RestartPolicyNever
)

func TestSidecars(t *testing.T) {
	const one, two = "proxy:sidecar", "proxy:sidecar log:sidecar"
	for _, tc := range []planCase{
		// Before the regular containers run.
		{"nothing has run", always, "proxy|web", one, nil, "", "init proxy"},
		{"a running last sidecar lets the pod go on", always, "proxy|web", one, []string{"proxy@0 running"}, "", "start web"},
		{"a running sidecar lets the next start", always, "proxy,setup|web", one, []string{"proxy@0 running"}, "", "init setup"},
		{"an init container runs beside a sidecar", always, "proxy,setup|web", one, []string{"setup@0 running", "proxy@0 running"}, "", ""},
		{"a sidecar that has not started yet holds up the next", always, "proxy,setup|web", "proxy:sidecar proxy:startup", []string{"proxy@0 running"}, "", ""},
		{"a sidecar that has started", always, "proxy,setup|web", "proxy:sidecar proxy:startup", []string{"proxy@0 running"}, "proxy#0:startup+", "init setup"},
		{"a sidecar that could not start", always, "proxy,setup|web", "proxy:sidecar proxy:startup", []string{"proxy@0 running"}, "proxy#0:startup-", "kill proxy#0 (StartupFailed); init proxy"},
		{"a sidecar's liveness does not hold up the next", always, "proxy,setup|web", "proxy:sidecar proxy:liveness", []string{"proxy@0 running"}, "", "init setup"},
		{"a sidecar that is not alive is restarted while the next starts", always, "proxy,setup|web", "proxy:sidecar proxy:liveness", []string{"proxy@0 running"}, "proxy#0:liveness-", "kill proxy#0 (LivenessFailed); init proxy; init setup"},
		{"a sidecar whose hook has not ended holds up the next", always, "proxy,setup|web", "proxy:sidecar proxy:hook", []string{"proxy@0 running"}, "", "hook proxy#0"},
		{"a sidecar that ended starts again", never, "proxy,setup|web", one, []string{"proxy@0 exit0"}, "", "init proxy"},
		{"an earlier sidecar that ended starts again beside an init container", never, "proxy,setup|web", one, []string{"setup@0 running", "proxy@0 exit1"}, "", "init proxy"},
		{"an earlier sidecar that is missing starts beside the next", always, "proxy,setup,two|web", one, []string{"setup@0 exit0"}, "", "init proxy; init two"},
		{"an earlier init container is not run again", always, "setup,proxy|web", one, []string{"proxy@0 running"}, "", "start web"},
		{"an init container that failed for good ends the sidecars too", never, "proxy,setup|web", one, []string{"setup@0 exit1", "proxy@0 exit1"}, "", "kill pod"},
		{"a sidecar that was created", always, "proxy|web", one, []string{"proxy@0 created"}, "", "init proxy"},
		{"a sidecar that is unknown", never, "proxy|web", one, []string{"proxy@0 unknown"}, "", "kill proxy#0 (Unknown); init proxy"},

		// After that.
		{"a sidecar that ended starts again with Never", never, "proxy|web", one, []string{"web@0 running", "proxy@0 exit0"}, "", "init proxy"},
		{"a sidecar whose record is gone starts again", always, "proxy|web", one, []string{"web@0 running"}, "", "init proxy"},
		{"sidecars start in the order of the spec", always, "proxy,setup,log|web", two, []string{"web@0 running"}, "", "init proxy; init log"},
		{"a sidecar and a regular container at once", always, "proxy|web", one, []string{"web@0 exit1", "proxy@0 exit1"}, "", "init proxy; start web"},
		{"a sidecar's definition changed", always, "proxy|web", one, []string{"web@0 running", "proxy@0 changed"}, "", "kill proxy#1 (DefinitionChanged); init proxy"},
		{"a sidecar is not alive", never, "proxy|web", "proxy:sidecar proxy:liveness", []string{"web@0 running", "proxy@0 running"}, "proxy#1:liveness-", "kill proxy#1 (LivenessFailed); init proxy"},
		{"a sidecar's liveness before its start is not asked", always, "proxy|web", "proxy:sidecar proxy:liveness proxy:startup", []string{"web@0 running", "proxy@0 running"}, "proxy#1:liveness-", ""},
		{"a sidecar could not start after it was restarted", always, "proxy|web", "proxy:sidecar proxy:startup", []string{"web@0 running", "proxy@0 running"}, "proxy#1:startup-", "kill proxy#1 (StartupFailed); init proxy"},
		{"regular init containers are ignored", always, "setup,proxy|web", one, []string{"web@0 running", "proxy@0 running", "setup@0 exit1"}, "", ""},
		{"sidecars do not keep a finished pod", never, "proxy|web", one, []string{"web@0 exit0", "proxy@0 running"}, "", "kill pod"},
		{"a sidecar of a finished pod is not restarted", onFailure, "proxy|web", one, []string{"web@0 exit0", "proxy@0 exit1"}, "", "kill pod"},
		{"an older sidecar is a stray", always, "proxy|web", one, []string{"web@0 running", "proxy@0 running", "proxy@0 running"}, "", "kill proxy#2 (Stray)"},
	} {
		t.Run(tc.name, tc.run)
	}
}

func TestProbesKillRegularContainers(t *testing.T) {
	for _, tc := range []planCase{
		{"alive", always, "web", "web:liveness", []string{"web@0 running"}, "web#0:liveness+", ""},
		{"not known", always, "web", "web:liveness web:startup", []string{"web@0 running"}, "", ""},
		{"not alive", always, "web", "web:liveness", []string{"web@0 running"}, "web#0:liveness-", "kill web#0 (LivenessFailed); start web"},
		{"not alive, Never", never, "web,side", "web:liveness", []string{"web@0 running", "side@0 running"}, "web#0:liveness-", "kill web#0 (LivenessFailed)"},
		{"the only one is not alive, Never", never, "web", "web:liveness", []string{"web@0 running"}, "web#0:liveness-", "kill pod"},
		{"not alive, container Never", always, "web,side", "web:liveness web:never", []string{"web@0 running", "side@0 running"}, "web#0:liveness-", "kill web#0 (LivenessFailed)"},
		{"not alive, container Always wins", never, "web", "web:liveness web:always", []string{"web@0 running"}, "web#0:liveness-", "kill web#0 (LivenessFailed); start web"},
		{"exit rules are not asked", never, "web,side", "web:liveness web:never web:restart42", []string{"web@0 running", "side@0 running"}, "web#0:liveness-", "kill web#0 (LivenessFailed)"},
		{"not started", onFailure, "web", "web:startup", []string{"web@0 running"}, "web#0:startup-", "kill web#0 (StartupFailed); start web"},
		{"the result of an older container", always, "web", "web:liveness", []string{"web@0 running", "web@0 exit1"}, "web#1:liveness-", ""},
		{"a result without a probe", always, "web", "", []string{"web@0 running"}, "web#0:liveness-", ""},
		{"a hook is awaited", always, "web,side", "web:hook", []string{"web@0 running"}, "", "hook web#0; start side"},
		{"the hook of a container that goes is not", always, "web", "web:hook", []string{"web@0 changed"}, "", "kill web#0 (DefinitionChanged); start web"},
	} {
		t.Run(tc.name, tc.run)
	}
}

func TestContainersHavePoliciesOfTheirOwn(t *testing.T) {
	for _, tc := range []planCase{
		{"Never in an Always pod", always, "web,side", "web:never", []string{"web@0 exit1", "side@0 running"}, "", ""},
		{"Always in a Never pod", never, "web,side", "web:always", []string{"web@0 exit0", "side@0 exit0"}, "", "start web"},
		{"OnFailure in a Never pod", never, "web", "web:onfailure", []string{"web@0 exit1"}, "", "start web"},
		{"a rule", never, "web", "web:never web:restart42", []string{"web@0 exit42"}, "", "start web"},
		{"no rule matches", never, "web", "web:never web:restart42", []string{"web@0 exit1"}, "", "kill pod"},
		{"init container OnFailure in a Never pod", never, "setup|web", "setup:onfailure", []string{"setup@0 exit1"}, "", "init setup"},
		{"init container Never in an Always pod", always, "setup|web", "setup:never", []string{"setup@0 exit1"}, "", "kill pod"},
		{"init container with a rule", never, "setup|web", "setup:never setup:restart42", []string{"setup@0 exit42"}, "", "init setup"},
		{"unknown init container, own policy Never", always, "setup|web", "setup:never", []string{"setup@0 unknown"}, "", "kill pod"},
		{"unknown init container, own policy OnFailure", never, "setup|web", "setup:onfailure", []string{"setup@0 unknown"}, "", "kill setup#0 (Unknown); init setup"},
	} {
		t.Run(tc.name, tc.run)
	}
}

func TestRestartAllRemovesVictimsBeforeSources(t *testing.T) {
	for _, tc := range []planCase{
		{
			"one source", never, "setup,proxy|web,side", "proxy:sidecar web:never web:all42",
			[]string{"side@0 running", "web@0 exit42", "proxy@0 running", "setup@0 exit0"}, "",
			"kill side#0 (RestartAllContainers); kill proxy#2 (RestartAllContainers); remove side#0; remove setup#3; remove proxy#2; remove web#1",
		},
		{
			"the newest record of a source goes last", never, "web,side", "web:never web:all42",
			[]string{"web@0 exit42", "side@0 exit1", "web@0 exit42", "web@0 exit1"}, "",
			"remove side#1; remove web#3; remove web#2; remove web#0",
		},
		{
			"init sources after regular ones", never, "proxy|web,side", "proxy:sidecar proxy:all42 web:never web:all42",
			[]string{"side@0 unknown", "proxy@0 exit42", "web@0 exit42"}, "",
			"kill side#0 (RestartAllContainers); remove side#0; remove web#2; remove proxy#1",
		},
		{"everything was removed", never, "setup|web", "web:never web:all42", nil, "", "init setup"},
		{"another code", never, "web", "web:never web:all42", []string{"web@0 exit41"}, "", "kill pod"},
	} {
		t.Run(tc.name, tc.run)
	}
}

func TestEphemeralContainersStartOnce(t *testing.T) {
	ran := func(s v1.ContainerState) []v1.ContainerStatus { return []v1.ContainerStatus{{Name: "debug", State: s}} }
	for _, tc := range []struct {
		name     string
		policy   v1.RestartPolicy
		records  []string
		statuses []v1.ContainerStatus
		want     string
	}{
		{"missing", always, []string{"web@0 running"}, nil, "ephemeral debug"},
		{"missing while the init container runs", always, []string{"setup@0 running"}, nil, "ephemeral debug"},
		{"waiting in the API", always, []string{"web@0 running"}, ran(v1.ContainerState{Waiting: &v1.ContainerStateWaiting{}}), "ephemeral debug"},
		{"created", always, []string{"web@0 running", "debug@0 created"}, nil, "ephemeral debug"},
		{"running", always, []string{"web@0 running", "debug@0 running"}, nil, ""},
		{"ended", always, []string{"web@0 running", "debug@0 exit1"}, nil, ""},
		{"unknown", always, []string{"web@0 running", "debug@0 unknown"}, nil, ""},
		{"removed after it ran", always, []string{"web@0 running"}, ran(v1.ContainerState{Running: &v1.ContainerStateRunning{}}), ""},
		{"removed after it ended", always, []string{"web@0 running"}, ran(v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}), ""},
		{"its pod is done", never, []string{"web@0 exit0", "debug@0 running"}, nil, "kill pod"},
		{"missing when its pod is done", never, []string{"web@0 exit0"}, nil, "kill pod"},
		{"all are restarted", always, []string{"web@0 exit42", "debug@0 running"}, nil, "remove web#0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod(tc.policy, "setup|web")
			mark(t, pod, "web:all42")
			pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
			pod.Status.EphemeralContainerStatuses = tc.statuses
			if tc.want == "remove web#0" {
				pod.Spec.Containers[0].RestartPolicy = new(v1.ContainerRestartPolicyNever)
			}
			status := testStatus(t, pod, "0+", tc.records...)
			if got := summary(pod, ComputeActions(Input{Pod: pod, Status: status})); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestContainerThatTheAPISaysIsDoneIsNotRunAgain(t *testing.T) {
	done := func(code int32) []v1.ContainerStatus {
		return []v1.ContainerStatus{{Name: "web", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code}}}}
	}
	for _, tc := range []struct {
		name     string
		policy   v1.RestartPolicy
		marks    string
		statuses []v1.ContainerStatus
		want     string
	}{
		{"never told", never, "", nil, "start web"},
		{"runs again", never, "", []v1.ContainerStatus{{Name: "web", State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}}, "start web"},
		{"Never", never, "", done(1), ""},
		{"OnFailure, success", onFailure, "", done(0), ""},
		{"OnFailure, failure", onFailure, "", done(1), "start web"},
		{"Always", always, "", done(0), "start web"},
		{"all were restarted", never, "log:all42", done(1), "start web"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod(tc.policy, "web,log")
			if tc.marks != "" {
				mark(t, pod, tc.marks)
			}
			pod.Status.ContainerStatuses = tc.statuses
			status := testStatus(t, pod, "0+", "log@0 running")
			if got := summary(pod, ComputeActions(Input{Pod: pod, Status: status})); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestKillMessagesOfProbesAndSidecars(t *testing.T) {
	for _, tc := range []struct {
		policy  v1.RestartPolicy
		marks   string
		records string
		probes  string
		want    string
	}{
		{always, "web:liveness", "web@0 running", "web#0:liveness-", "Container web failed liveness probe, will be restarted"},
		{always, "web:startup", "web@0 running", "web#0:startup-", "Container web failed startup probe, will be restarted"},
		{never, "web:liveness", "web@0 running", "web#0:liveness-", "Container web failed liveness probe"},
		{never, "", "web@0 changed", "", "Container web definition changed, will be restarted"},
		{always, "proxy:liveness", "proxy@0 running", "proxy#0:liveness-", "Init container proxy failed liveness probe"},
		{always, "proxy:startup", "proxy@0 running", "proxy#0:startup-", "Init container proxy failed startup probe"},
		{always, "", "proxy@0 changed", "", "Init container proxy definition changed"},
		{always, "", "proxy@0 unknown", "", `Init container is in "unknown" state, try killing it before restart`},
	} {
		t.Run(tc.want, func(t *testing.T) {
			pod := testPod(tc.policy, "proxy|web,side")
			mark(t, pod, "proxy:sidecar "+tc.marks)
			a := ComputeActions(Input{Pod: pod, Status: testStatus(t, pod, "0+", tc.records, "side@0 running"), Probes: results(t, tc.probes)})
			var got []string
			for _, k := range a.ToKill {
				got = append(got, k.Message)
			}
			if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
				t.Errorf("messages (-want +got):\n%s", diff)
			}
		})
	}
}
