// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tombolo-dev/tombolo/provider"
)

func TestStaticPodFlagsAmountToSettings(t *testing.T) {
	o := parseNode(t, "--pod-manifest-path=/m", "--manifest-url=https://h/p", "--manifest-url-header=A:hello,B: again,A:you")
	got, problems := o.static.validate()
	want := provider.StaticPods{Dir: "/m", URL: "https://h/p", Header: http.Header{"A": {"hello", "you"}, "B": {"again"}}}
	if diff := cmp.Diff(want, got); diff != "" || len(problems) > 0 {
		t.Errorf("problems %v, settings (-want +got):\n%s", problems, diff)
	}
}

func TestWrongStaticPodFlagsAreNamedAndNoHeaderValueIsShown(t *testing.T) {
	for flag, args := range map[string][]string{
		"--pod-manifest-path":    {"--pod-manifest-path=relative"},
		"--manifest-url ":        {"--manifest-url=ftp://h"},
		"--manifest-url-header":  {"--manifest-url=http://h", "--manifest-url-header=a b: secret"},
		"without --manifest-url": {"--manifest-url-header=a:secret"},
	} {
		_, problems := parseNode(t, args...).static.validate()
		if err := errors.Join(problems...); err == nil || !strings.Contains(err.Error(), flag) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v: %v, want an error that names %s", args, err, flag)
		}
	}
}
