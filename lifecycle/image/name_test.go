// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

const digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestWithDefaultTagAddsOnlyAMissingTag(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"busybox", "busybox:latest"},
		{"busybox:1.36", "busybox:1.36"},
		{"busybox:latest", "busybox:latest"},
		{"library/busybox", "library/busybox:latest"},
		{"registry.k8s.io/pause", "registry.k8s.io/pause:latest"},
		{"localhost:5000/app", "localhost:5000/app:latest"},
		{"localhost:5000/app:v1", "localhost:5000/app:v1"},
		{"busybox@" + digest, "busybox@" + digest},
		{"busybox:1.36@" + digest, "busybox:1.36@" + digest},
	} {
		got, err := WithDefaultTag(tc.in)
		if err != nil || got != tc.want {
			t.Errorf("WithDefaultTag(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
		}
	}
}

func TestWithDefaultTagRefusesWhatIsNoName(t *testing.T) {
	for _, in := range []string{"", "Busybox", "busybox:", ":latest", "busybox:a b", "busybox@sha256:short", "a//b", "http://x/y"} {
		if got, err := WithDefaultTag(in); err == nil || !strings.Contains(err.Error(), `couldn't parse image name "`+in+`"`) {
			t.Errorf("WithDefaultTag(%q) = %q, %v, want an error that quotes the name", in, got, err)
		}
	}
}

func FuzzWithDefaultTag(f *testing.F) {
	for _, s := range []string{"busybox", "a:b", "localhost:5000/x/y@" + digest, "", "a:5000", "[::1]:80/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		once, err := WithDefaultTag(in)
		if err != nil {
			return
		}
		if once != in && once != in+":latest" {
			t.Errorf("WithDefaultTag(%q) = %q: more than a tag was added", in, once)
		}
		if twice, err := WithDefaultTag(once); err != nil || twice != once {
			t.Errorf("WithDefaultTag(%q) = %q, %v: not stable", once, twice, err)
		}
	})
}

func TestPullPolicyFollowsTheTagWhenUnset(t *testing.T) {
	for _, tc := range []struct {
		policy v1.PullPolicy
		image  string
		want   v1.PullPolicy
	}{
		{v1.PullNever, "a:latest", v1.PullNever},
		{"", "a:latest", v1.PullAlways},
		{"", "a:v1", v1.PullIfNotPresent},
		{"", "a@" + digest, v1.PullIfNotPresent},
	} {
		if got := pullPolicy(&v1.Container{ImagePullPolicy: tc.policy}, tc.image); got != tc.want {
			t.Errorf("policy %q of %s: %q, want %q", tc.policy, tc.image, got, tc.want)
		}
	}
}
