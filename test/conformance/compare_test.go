// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCompareSortsEveryTestIntoOneList(t *testing.T) {
	pass, fail := Result{Outcome: Passed}, Result{Outcome: Failed, Why: "timed out (pods.go:1)"}
	refused := Result{Outcome: Failed, Why: "pod failed", Refused: []string{"spec.hostPID"}}
	kubelet := Results{"a": pass, "b": pass, "c": pass, "d": pass, "e": fail, "f": fail, "g": fail}
	tombolo := Results{"a": pass, "b": refused, "c": fail, "e": fail, "f": pass, "h": pass, "i": fail}
	got := compare(kubelet, tombolo)
	want := difference{
		both: []string{"a"}, refused: []string{"b"}, kubelet: []string{"c", "d"}, none: []string{"e"},
		tombolo: []string{"f", "h"}, unmatched: []string{"g", "i"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(difference{})); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
	if got.regressions() != 2 {
		t.Errorf("%d regressions, want those of c and d", got.regressions())
	}
	var out bytes.Buffer
	got.print(&out, kubelet, tombolo)
	for _, want := range []string{
		"1 pass on both", "b\n    spec.hostPID", "1  spec.hostPID", "c\n    timed out", "d\n    not run with Tombolo", "h\n    not run with the kubelet",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}

func TestMissedTellsWhyATestThatMustPassDidNot(t *testing.T) {
	results := Results{
		"passes": {Outcome: Passed}, "fails": {Outcome: Failed, Why: "timed out (pods.go:1)"},
		"refused": {Outcome: Failed, Refused: []string{"spec.hostPID"}}, "not listed": {Outcome: Failed},
	}
	got := missed([]string{"passes", "fails", "refused", "gone"}, results)
	want := map[string]string{
		"fails": "timed out (pods.go:1)", "refused": "refused: spec.hostPID",
		"gone": "no such test was run: is it named as in the suite, and did it skip itself?",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("missed (-want +got):\n%s", diff)
	}
}

func TestParseReport(t *testing.T) {
	const report = `[{"SpecReports": [
		{"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed"},
		{"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "should pass [Conformance]", "State": "passed", "RunTime": 2000000000},
		{"ContainerHierarchyTexts": ["[sig-node] Pods", "when slow"], "LeafNodeType": "It", "LeafNodeText": "should fail", "State": "timedout",
			"Failure": {"Message": "Timed out\n  after 5m", "Location": {"FileName": "k8s.io/test/pods.go", "LineNumber": 12}},
			"CapturedGinkgoWriterOutput": "Destroying namespace \"pods-12\" for this suite",
			"SpecEvents": [{"Message": "Creating a pod"}, {"Message": "Creating configMap pods-13/c"}]},
		{"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "skips itself", "State": "skipped"}
	]}]`
	got, err := parseReport([]byte(report), map[string][]string{"pods-12": {"spec.b", "spec.a"}, "pods-1": {"spec.c"}, "pods-13": {"spec.d"}})
	if err != nil {
		t.Fatal(err)
	}
	want := Results{
		"[sig-node] Pods should pass [Conformance]": {Outcome: Passed, Took: 2e9},
		"[sig-node] Pods when slow should fail":     {Outcome: Failed, Why: "Timed out after 5m (pods.go:12)", Refused: []string{"spec.a", "spec.b", "spec.d"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestParseReportFailsWithTheSuite(t *testing.T) {
	for name, report := range map[string]string{
		"the set-up failed": `[{"SpecReports": [{"LeafNodeType": "SynchronizedBeforeSuite", "State": "failed", "Failure": {"Message": "no nodes"}}]}]`,
		"nothing ran":       `[{"SpecReports": [{"LeafNodeType": "It", "State": "skipped"}]}]`,
		"no report":         `{`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseReport([]byte(report), nil); err == nil {
				t.Errorf("results %v, want an error", got)
			}
		})
	}
}

func FuzzRefusedFields(f *testing.F) {
	f.Add("Pod was rejected: this node cannot run the pod as it is written: spec.hostPID (remove it)")
	f.Fuzz(func(t *testing.T, message string) {
		for _, field := range refusedFields(message) {
			if !strings.HasPrefix(field, "spec.") && !strings.HasPrefix(field, "metadata.") {
				t.Errorf("field %q", field)
			}
		}
	})
}

func TestRefusedFields(t *testing.T) {
	for message, want := range map[string][]string{
		"Pod was rejected: this node cannot run the pod as it is written: spec.hostPID (the host's processes are not shared; remove it); " +
			"spec.containers[1].livenessProbe (probes are not run (yet)); spec.containers[0].livenessProbe (x); and 3 more fields": {
			"spec.containers[].livenessProbe", "spec.hostPID",
		},
		"spec.volumes[0].projected (set automountServiceAccountToken: false)":                  {"spec.volumes[].projected"},
		"metadata.annotations[container.apparmor.security.beta.kubernetes.io/c] (not applied)": {"metadata.annotations[]"},
		"Node didn't have enough resource: cpu":                                                nil,
	} {
		if diff := cmp.Diff(want, refusedFields(message)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", message, diff)
		}
	}
}

func TestQuickListNamesEachTestOnce(t *testing.T) {
	s := quickSelection(quickList)
	if got := distinct(append([]string{}, s.must...)); len(got) != len(s.must) {
		t.Errorf("%d names, %d of them different", len(s.must), len(got))
	}
	for _, name := range s.must {
		if !strings.HasPrefix(name, "[sig-node] ") {
			t.Errorf("%q is no full name of a node test", name)
		}
	}
}

func TestSelectionsAsFlags(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    selection
		want []string
	}{
		{"without slow tests", nodeSelection("node", false, ""), []string{"--label-filter=(NodeConformance || Conformance) && sig-node && !Serial && !Slow"}},
		{"of both groups", nodeSelection("all", true, ""), []string{"--label-filter=(NodeConformance || Conformance) && (sig-node || sig-storage) && !Serial"}},
		{"with them, and a focus", nodeSelection("node", true, "Probing"), []string{"--label-filter=(NodeConformance || Conformance) && sig-node && !Serial", "--focus=Probing"}},
		{"a list", quickSelection("# a comment\n\n[sig-node] A (b) \n"), []string{`--focus=\[sig-node\] A \(b\)$`}},
	} {
		if diff := cmp.Diff(tc.want, tc.s.arguments()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
