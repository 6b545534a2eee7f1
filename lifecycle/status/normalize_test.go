// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

func TestMessagesAreValidTextOfBoundedLength(t *testing.T) {
	for _, tt := range []struct {
		desc, in string
		limit    int
		want     string
	}{
		{desc: "plain", in: "no such file\n", limit: 100, want: "no such file\n"},
		{desc: "cut", in: "no such file", limit: 7, want: "no such"},
		{desc: "a character is not cut in two", in: "Größe", limit: 3, want: "Gr"},
		{desc: "invalid bytes are replaced", in: "a\xff\xfeb", limit: 100, want: "a\uFFFDb"},
		{desc: "a character that was cut by its reader", in: "\xb6ße", limit: 100, want: "\uFFFDße"},
		{desc: "replacing makes it longer, so it is cut afterwards", in: "\xff" + "a", limit: 2, want: ""},
		{desc: "nothing", limit: 0, want: ""},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			if got := validMessage(tt.in, tt.limit); got != tt.want {
				t.Errorf("validMessage() = %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRandomBytesDoNotBlockTheStatus is report B51: 4096 random bytes as the message of one container of three.
func TestRandomBytesDoNotBlockTheStatus(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	message := make([]byte, 4096)
	for i := range message {
		message[i] = byte(r.UintN(256))
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		RestartPolicy: v1.RestartPolicyNever, InitContainers: []v1.Container{{Name: "i"}}, Containers: []v1.Container{{Name: "a"}, {Name: "b"}},
	}}
	status := Generate(Input{
		Pod: pod,
		Runtime: &cri.PodStatus{Containers: []cri.ContainerStatus{
			{ID: "a1", Name: "a", State: cri.ContainerExited, ExitCode: 1}, {ID: "b1", Name: "b", State: cri.ContainerRunning},
		}},
		TerminationMessage: func(*cri.ContainerStatus) string { return string(message) },
	})
	got := status.ContainerStatuses[0].State.Terminated.Message
	if !utf8.ValidString(got) {
		t.Error("the message is not valid UTF-8")
	}
	if limit := 12 * 1024 / 3; len(got) > limit || len(got) < limit-utf8.UTFMax {
		t.Errorf("the message has %d bytes, want nearly all of its share of %d", len(got), limit)
	}
	if status.ContainerStatuses[1].State.Running == nil {
		t.Error("the other container is not said to run")
	}
}

func FuzzValidMessage(f *testing.F) {
	f.Add("Größe \xff", 4)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		if limit < 0 || limit > 1<<20 {
			t.Skip("not a limit that a caller gives")
		}
		got := validMessage(s, limit)
		if !utf8.ValidString(got) || len(got) > limit {
			t.Errorf("validMessage(%q, %d) = %q", s, limit, got)
		}
		if utf8.ValidString(s) && !strings.HasPrefix(s, got) {
			t.Errorf("%q is not a beginning of %q", got, s)
		}
	})
}

func TestMessageOfTheRuntimeComesFirst(t *testing.T) {
	record := &cri.ContainerStatus{ID: "a1", State: cri.ContainerExited, Message: "runtime"}
	told := func(message string) *v1.ContainerStateTerminated {
		return &v1.ContainerStateTerminated{ContainerID: "containerd://a1", Message: message}
	}
	for _, tt := range []struct {
		desc  string
		left  string
		known *v1.ContainerStateTerminated
		want  string
	}{
		{desc: "alone", want: "runtime"},
		{desc: "both", left: "file", want: "runtime: file"},
		{desc: "the file is gone", known: told("runtime: file"), want: "runtime: file"},
		{desc: "told before and given back whole", left: "runtime: file", known: told("runtime: file"), want: "runtime: file"},
		{desc: "read only now", left: "file", known: told("runtime"), want: "runtime: file"},
		{desc: "nothing was told", left: "file", known: told(""), want: "runtime: file"},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			g := generation{in: Input{TerminationMessage: func(*cri.ContainerStatus) string { return tt.left }}}
			if got := g.terminated(record, tt.known).Message; got != tt.want {
				t.Errorf("the message is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEqualLooksAtOurPartOnly(t *testing.T) {
	base := func() *v1.PodStatus {
		return &v1.PodStatus{
			Phase: v1.PodRunning, StartTime: &then, ContainerStatuses: list(running("a")),
			Conditions: []v1.PodCondition{cond(v1.PodReady, v1.ConditionTrue, "", then), cond("x/foreign", v1.ConditionTrue, "", then)},
		}
	}
	for _, tt := range []struct {
		desc   string
		change func(*v1.PodStatus)
		want   bool
	}{
		{desc: "nothing", change: func(*v1.PodStatus) {}, want: true},
		{desc: "the time of a condition", change: func(s *v1.PodStatus) { s.Conditions[0].LastTransitionTime = later }, want: true},
		{desc: "the order of conditions", change: func(s *v1.PodStatus) {
			s.Conditions[0], s.Conditions[1] = s.Conditions[1], s.Conditions[0]
		}, want: true},
		{desc: "a condition of another", change: func(s *v1.PodStatus) { s.Conditions[1].Status = v1.ConditionFalse }, want: true},
		{desc: "a field of another", change: func(s *v1.PodStatus) { s.NominatedNodeName = "n" }, want: true},
		{desc: "the same time in another zone", change: func(s *v1.PodStatus) {
			s.StartTime = &metav1.Time{Time: then.In(time.FixedZone("x", 3600))}
		}, want: true},
		{desc: "our condition", change: func(s *v1.PodStatus) { s.Conditions[0].Status = v1.ConditionFalse }},
		{desc: "the reason of our condition", change: func(s *v1.PodStatus) { s.Conditions[0].Reason = "r" }},
		{desc: "our condition is missing", change: func(s *v1.PodStatus) { s.Conditions = s.Conditions[1:] }},
		{desc: "one of ours more", change: func(s *v1.PodStatus) {
			s.Conditions = append(s.Conditions, cond(v1.DisruptionTarget, v1.ConditionTrue, "", then))
		}},
		{desc: "a container", change: func(s *v1.PodStatus) { s.ContainerStatuses[0].RestartCount++ }},
		{desc: "the phase", change: func(s *v1.PodStatus) { s.Phase = v1.PodFailed }},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			a, b := base(), base()
			tt.change(b)
			if equal(a, b) != tt.want || equal(b, a) != tt.want {
				t.Errorf("equal() = %v and %v, want %v", equal(a, b), equal(b, a), tt.want)
			}
		})
	}
}

func TestNormalizePutsStatusesInOrder(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{InitContainers: []v1.Container{{Name: "z"}, {Name: "y"}}}}
	st := &v1.PodStatus{InitContainerStatuses: list(waiting("y"), waiting("z")), ContainerStatuses: list(waiting("b"), waiting("a"))}
	normalize(pod, st)
	if st.InitContainerStatuses[0].Name != "z" || st.ContainerStatuses[0].Name != "a" {
		t.Errorf("the order is %s, %s; want init containers as in the spec and the others by name",
			words(st.InitContainerStatuses), words(st.ContainerStatuses))
	}
}
