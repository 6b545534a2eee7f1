// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// chartRights are the verbs that the chart's roles have, by the golden file of the chart's own test.
func chartRights(t *testing.T, role string) (rights []string) {
	t.Helper()
	data, err := os.ReadFile("../../test/chart/testdata/rights.golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, match := range regexp.MustCompile(`ClusterRole \S+-`+role+` may (\S+) (\S+) of \["([^"]*)"\]`).FindAllStringSubmatch(string(data), -1) {
		resource, subresource, _ := strings.Cut(match[2], "/")
		rights = append(rights, Right{Verb: match[1], Group: match[3], Resource: resource, Subresource: subresource}.String())
	}
	return rights
}

// TestEveryVerbOfTheChartIsLookedAt: what the chart grants is what the check asks for.
func TestEveryVerbOfTheChartIsLookedAt(t *testing.T) {
	texts := func(rights []Right) (out []string) {
		for _, r := range rights {
			out = append(out, r.String())
		}
		slices.Sort(out)
		return out
	}
	want := chartRights(t, "request")
	slices.Sort(want)
	if d := cmp.Diff(want, texts(AskerRights())); d != "" {
		t.Errorf("the one who asks for the identity (-chart +check):\n%s", d)
	}
	node := texts(NodeRights("edge-1", true))
	renew := chartRights(t, "renew")
	if len(renew) == 0 {
		t.Error("the chart's role for renewals is not found")
	}
	for _, right := range append(renew, "get configmaps extension-apiserver-authentication in kube-system") {
		if !slices.Contains(node, right) {
			t.Errorf("%s is not looked at", right)
		}
	}
	if slices.ContainsFunc(texts(NodeRights("edge-1", false)), func(s string) bool { return strings.Contains(s, "configmaps") }) {
		t.Error("the authority of callers is looked at although it is not read from the cluster")
	}
}

func TestEveryRightSaysWhatItIsForAndWhatToDo(t *testing.T) {
	for _, node := range []bool{true, false} {
		rights := AskerRights()
		if node {
			rights = NodeRights("edge-1", true)
		}
		for _, r := range rights {
			if r.For == "" || r.remedy(Identity{User: "u", Node: node}) == "" {
				t.Errorf("%+v", r)
			}
		}
	}
}
