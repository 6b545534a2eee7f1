// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Outcome is how a test ended.
type Outcome string

// The outcomes. A test that skipped itself counts as not run.
const (
	Passed Outcome = "passed"
	Failed Outcome = "failed"
)

// A Result is what became of one test.
type Result struct {
	Outcome Outcome `json:"outcome"`
	// Why is the first part of the failure's message.
	Why string `json:"why,omitempty"`
	// Refused are the fields for which pods of the test were refused.
	Refused []string      `json:"refused,omitempty"`
	Took    time.Duration `json:"took"`
}

// Results are the tests that ran, by full name.
type Results map[string]Result

// report is the part of ginkgo's JSON report that matters here; the names are ginkgo's.
type report struct {
	SpecialSuiteFailureReasons []string
	SpecReports                []spec
}

type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	RunTime                 time.Duration
	Failure                 struct {
		Message  string
		Location struct {
			FileName   string
			LineNumber int
		}
	}
	CapturedGinkgoWriterOutput string
	CapturedStdOutErr          string
	SpecEvents                 []struct{ Message string }
}

// maxWhy bounds the reason of a failure, in bytes.
const maxWhy = 400

// parseReport reads ginkgo's JSON report. refused are the fields refused by namespace; a test is known by its namespaces,
// which its output names. It is an error if the suite itself failed.
func parseReport(data []byte, refused map[string][]string) (Results, error) {
	var reports []report
	if err := json.Unmarshal(data, &reports); err != nil {
		return nil, fmt.Errorf("reading ginkgo's report: %w", err)
	}
	results := Results{}
	for _, r := range reports {
		for _, s := range r.SpecReports {
			if s.LeafNodeType != "It" {
				if failed(s.State) {
					return nil, fmt.Errorf("the suite failed in %s: %s", s.LeafNodeType, s.why())
				}
				continue
			}
			switch {
			case s.State == "passed":
				results[s.name()] = Result{Outcome: Passed, Took: s.RunTime}
			case failed(s.State):
				results[s.name()] = Result{Outcome: Failed, Took: s.RunTime, Why: s.why(), Refused: s.refused(refused)}
			}
		}
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("the suite ran no test: %s", strings.Join(flatten(reports), "; "))
	}
	return results, nil
}

func flatten(reports []report) []string {
	var all []string
	for _, r := range reports {
		all = append(all, r.SpecialSuiteFailureReasons...)
	}
	return all
}

func failed(state string) bool {
	switch state {
	case "failed", "panicked", "interrupted", "aborted", "timedout":
		return true
	}
	return false
}

func (s spec) name() string {
	return strings.Join(append(append([]string{}, s.ContainerHierarchyTexts...), s.LeafNodeText), " ")
}

// why is the failure on one line.
func (s spec) why() string {
	text := strings.Join(strings.Fields(s.Failure.Message), " ")
	if len(text) > maxWhy {
		text = strings.ToValidUTF8(text[:maxWhy], "") + "..."
	}
	file := s.Failure.Location.FileName
	if i := strings.LastIndexByte(file, '/'); i >= 0 {
		file = file[i+1:]
	}
	return fmt.Sprintf("%s (%s:%d)", text, file, s.Failure.Location.LineNumber)
}

// word is what a namespace can be in a text.
var word = regexp.MustCompile(`[a-z0-9-]+`)

// refused are the fields of the namespaces that the test names in its output or its steps.
func (s spec) refused(byNamespace map[string][]string) []string {
	texts := []string{s.CapturedGinkgoWriterOutput, s.CapturedStdOutErr, s.Failure.Message}
	for _, step := range s.SpecEvents {
		texts = append(texts, step.Message)
	}
	var fields []string
	for _, text := range texts {
		for _, name := range word.FindAllString(text, -1) {
			fields = append(fields, byNamespace[name]...)
		}
	}
	return distinct(fields)
}
