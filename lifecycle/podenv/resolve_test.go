// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var pod = &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}

func TestResolveFollowsTheOrderOfDefinition(t *testing.T) {
	for _, tc := range []struct {
		name string
		env  []v1.EnvVar
		want []string
	}{
		{name: "no variables"},
		{
			name: "a variable sees the ones before it but not the ones after it",
			env:  []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$(A)$(C)"}, {Name: "C", Value: "3"}},
			want: []string{"A=1", "B=1$(C)", "C=3"},
		},
		{
			name: "the last definition counts, at the place of the first",
			env:  []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}, {Name: "A", Value: "3"}},
			want: []string{"A=3", "B=2"},
		},
		{
			name: "a definition may extend the earlier one of the same name",
			env:  []v1.EnvVar{{Name: "PATH", Value: "/bin"}, {Name: "PATH", Value: "/opt:$(PATH)"}},
			want: []string{"PATH=/opt:/bin"},
		},
		{
			name: "a reference to itself without an earlier definition stays",
			env:  []v1.EnvVar{{Name: "PATH", Value: "/opt:$(PATH)"}},
			want: []string{"PATH=/opt:$(PATH)"},
		},
		{
			name: "an escaped reference is not expanded where the variable is used either",
			env:  []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "$$(A)"}, {Name: "C", Value: "$(B)"}},
			want: []string{"A=1", "B=$(A)", "C=$(A)"},
		},
		{
			name: "an empty value is a value",
			env:  []v1.EnvVar{{Name: "A"}, {Name: "B", Value: "[$(A)]"}},
			want: []string{"A=", "B=[]"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env, command, args, err := Resolve(pod, &v1.Container{Name: "c", Env: tc.env})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, kv := range env {
				got = append(got, kv.Key+"="+string(kv.Value))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if command != nil || args != nil {
				t.Errorf("command %q and args %q instead of the image's own", command, args)
			}
		})
	}
}

func TestResolveExpandsCommandAndArgsWithTheFinalEnvironment(t *testing.T) {
	c := &v1.Container{
		Name:    "c",
		Env:     []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "x y"}, {Name: "A", Value: "2"}},
		Command: []string{"/bin/$(A)", "$(B)"},
		Args:    []string{"$$(A)", "$(NONE)", ""},
	}
	_, command, args, err := Resolve(pod, c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/2", "x y"}, command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"$(A)", "$(NONE)", ""}, args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
	if c.Command[0] != "/bin/$(A)" {
		t.Error("the definition was changed")
	}
}

func TestResolveNamesTheFieldItCannotResolve(t *testing.T) {
	for _, tc := range []struct {
		field     string
		container v1.Container
	}{
		{"envFrom", v1.Container{EnvFrom: []v1.EnvFromSource{{}}}},
		{"env[1].valueFrom", v1.Container{Env: []v1.EnvVar{{Name: "A"}, {Name: "B", ValueFrom: &v1.EnvVarSource{}}}}},
	} {
		_, _, _, err := Resolve(pod, &tc.container)
		if !errdefs.IsNotImplemented(err) || !strings.Contains(err.Error(), tc.field) {
			t.Errorf("got %v, want a NotImplemented error naming %s", err, tc.field)
		}
	}
}
