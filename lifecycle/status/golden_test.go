// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/tombolo-dev/tombolo/cri"
)

var update = flag.Bool("update", false, "rewrite the golden files; commit them only if you understand the difference")

// scenario is the content of testdata/*.yaml: what a status is made from.
type scenario struct {
	// Why says what is to be seen in the golden file.
	Why      string
	Pod      *v1.Pod
	Runtime  *facts
	Cached   *v1.PodStatus
	Waiting  map[string]v1.ContainerStateWaiting
	Messages map[string]string
	Terminal bool
	HostIPs  []string
	Now      time.Time
}

type facts struct {
	IPs        []string
	Sandboxes  []cri.SandboxStatus
	Containers []record
}

// record is a cri.ContainerStatus with its state as a word.
type record struct {
	cri.ContainerStatus `json:",inline"`
	Word                string `json:"state"`
}

func (s *scenario) input(t *testing.T) Input {
	t.Helper()
	in := Input{
		Pod: s.Pod, Cached: s.Cached, Terminal: s.Terminal, HostIPs: s.HostIPs, Now: s.Now,
		WaitingReason: func(name string) (string, string, bool) {
			w, ok := s.Waiting[name]
			return w.Reason, w.Message, ok
		},
		TerminationMessage: func(c *cri.ContainerStatus) string { return s.Messages[c.ID] },
	}
	if s.Runtime == nil {
		return in
	}
	in.Runtime = &cri.PodStatus{UID: s.Pod.UID, IPs: s.Runtime.IPs, Sandboxes: s.Runtime.Sandboxes}
	states := map[string]cri.ContainerState{}
	for _, state := range []cri.ContainerState{cri.ContainerUnknown, cri.ContainerCreated, cri.ContainerRunning, cri.ContainerExited} {
		states[state.String()] = state
	}
	for _, r := range s.Runtime.Containers {
		state, ok := states[r.Word]
		if !ok {
			t.Fatalf("container %q has no such state: %q", r.Name, r.Word)
		}
		r.State = state
		in.Runtime.Containers = append(in.Runtime.Containers, r.ContainerStatus)
	}
	return in
}

func TestGenerateGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, file := range files {
		if strings.HasSuffix(file, ".golden.yaml") {
			continue
		}
		cases++
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var s scenario
			if err := yaml.UnmarshalStrict(data, &s); err != nil {
				t.Fatal(err)
			}
			if s.Why == "" {
				t.Fatal("the scenario does not say why it is here")
			}
			in := s.input(t)
			before := in.Pod.DeepCopy()
			status := Generate(in)
			if d := cmp.Diff(before, in.Pod); d != "" {
				t.Errorf("Generate changed the pod:\n%s", d)
			}
			compareGolden(t, strings.TrimSuffix(file, ".yaml")+".golden.yaml", status)

			// What was generated once is generated again when nothing happened in between: otherwise every sync would write.
			in.Cached = &status
			in.Now = in.Now.Add(time.Hour)
			if in.Pod.Spec.ActiveDeadlineSeconds == nil {
				if d := cmp.Diff(status, Generate(in)); d != "" {
					t.Errorf("the second generation differs from the first:\n%s", d)
				}
			}
		})
	}
	if cases == 0 {
		t.Fatal("no scenario was found")
	}
}

func compareGolden(t *testing.T, file string, status v1.PodStatus) {
	t.Helper()
	got, err := yaml.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("-want +got (go test -run Golden -update rewrites it):\n%s", d)
	}
}
