// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"regexp"
	"strings"
)

// quickList are the tests that must pass at any time, one full name a line; # begins a comment.
//
//go:embed quick.txt
var quickList string

// A selection is a choice of tests.
type selection struct {
	// labels is a ginkgo label filter.
	labels string
	// focus are regular expressions, of which one must match the full name; none means any name.
	focus []string
	// must are the full names of tests that have to pass; nil if there is no such list.
	must []string
}

// groups are the tests of Kubernetes' groups whose matter a node agent is, by what -group calls them.
var groups = map[string]string{"node": "sig-node", "storage": "sig-storage", "all": "(sig-node || sig-storage)"}

// nodeSelection is what a node agent has to pass of a group, without the tests that must run alone.
func nodeSelection(group string, slow bool, focus string) selection {
	s := selection{labels: "(NodeConformance || Conformance) && " + groups[group] + " && !Serial"}
	if !slow {
		s.labels += " && !Slow"
	}
	if focus != "" {
		s.focus = []string{focus}
	}
	return s
}

// quickSelection are the tests of a list and no others.
func quickSelection(list string) selection {
	s := selection{must: []string{}}
	for line := range strings.Lines(list) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s.must = append(s.must, line)
		s.focus = append(s.focus, regexp.QuoteMeta(line)+"$")
	}
	return s
}

// arguments are the selection as flags of ginkgo.
func (s selection) arguments() []string {
	var args []string
	if s.labels != "" {
		args = append(args, "--label-filter="+s.labels)
	}
	for _, f := range s.focus {
		args = append(args, "--focus="+f)
	}
	return args
}
