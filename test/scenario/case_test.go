// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCaseIsRead(t *testing.T) {
	c, err := ParseCase([]byte("A text.\n\n-- pod a uid=a.1 --\nspec:\n  containers:\n  - name: main\n" +
		"-- script --\n# a comment\n5s..7s check gone a\n-- trace --\n1s..2s started a/main\nnever ended *\n2 times gone a\n"))
	if err != nil {
		t.Fatal(err)
	}
	pod, step := c.Pods["a.1"], c.Script[0]
	if pod == nil || pod.Name != "a" || pod.Spec.Containers[0].Image == "" {
		t.Errorf("the pod is %+v", pod)
	}
	if step.From != 5*time.Second || step.To != 7*time.Second || step.Command != "check" || strings.Join(step.Args, " ") != "gone a" {
		t.Errorf("the step is %+v", step)
	}
	timed, never, twice := c.Trace[0], c.Trace[1], c.Trace[2]
	if !timed.Timed || timed.Count != -1 || timed.Glob != "started a/main" || never.Count != 0 || never.Glob != "ended *" || twice.Count != 2 {
		t.Errorf("the trace is %+v", c.Trace)
	}
}

func TestCaseThatIsWrongIsRefused(t *testing.T) {
	const good = "-- script --\n1s mend\n-- trace --\nstarted\n"
	for name, text := range map[string]string{
		"no text":         good,
		"no script":       "Text.\n-- trace --\nstarted\n",
		"no trace":        "Text.\n-- script --\n1s mend\n",
		"unknown section": "Text.\n-- other --\n" + good,
		"open section":    "Text.\n-- script\n" + good,
		"unknown command": "Text.\n-- script --\n1s dance\n-- trace --\nstarted\n",
		"no time":         "Text.\n-- script --\nsoon mend\n-- trace --\nstarted\n",
		"no command":      "Text.\n-- script --\n1s\n-- trace --\nstarted\n",
		"pod's field":     "Text.\n-- pod a --\nspec: {wings: 2}\n" + good,
		"pod's UID":       "Text.\n-- pod a other --\nspec: {}\n" + good,
		"a count":         "Text.\n-- script --\n1s mend\n-- trace --\nmany times started\n",
	} {
		if _, err := ParseCase([]byte(text)); err == nil {
			t.Errorf("%s: the case is taken", name)
		}
	}
}

func TestGlob(t *testing.T) {
	for _, tt := range []struct {
		pattern, text string
		want          bool
	}{
		{"a b", "a b", true},
		{"a b", "a bc", false},
		{"a*", "abc", true},
		{"*c", "abc", true},
		{"a*b*c", "a1b2c", true},
		{"a*b*c", "a1c", false},
		{"ab*ba", "aba", false},
	} {
		if got := glob(tt.pattern, tt.text); got != tt.want {
			t.Errorf("glob(%q, %q) = %v", tt.pattern, tt.text, got)
		}
	}
}

func FuzzParseCase(f *testing.F) {
	files, _ := filepath.Glob("cases/*.txt")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCase(b)
		if err != nil {
			return
		}
		if len(c.Script) == 0 || len(c.Trace) == 0 {
			t.Error("a case without a script or a trace is taken")
		}
	})
}
