// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// Case is a file of cases: a text for the reader, and sections that begin with a line "-- name --".
//
// A section "pod NAME" or "pod NAME uid=UID" is a manifest; what a manifest usually says (image, restart policy, grace
// period) may be left out, and the UID is the name unless it is given.
//
// The section "script" has a command on each line, behind the time at which it is given ("5s"), or behind the time in which
// a check must come true ("5s..12s"). Commands are listed at the functions of the table commands. A node runs from the
// beginning.
//
// The section "trace" has patterns that must be found in the trace, in this order, with * for any text. Behind a time
// ("5s" or "5s..7s") they must be found at that time. Lines that begin with "never" or a number and "times" are about the
// whole trace.
type Case struct {
	Text   string
	Pods   map[types.UID]*v1.Pod
	Script []Step
	Trace  []Pattern
}

// Step is a line of a script.
type Step struct {
	Line     string
	From, To time.Duration
	Command  string
	Args     []string
}

// Pattern is a line of an expected trace.
type Pattern struct {
	Line string
	// From and To bound the time if Timed.
	Timed    bool
	From, To time.Duration
	// Count is how often it must be found in the whole trace, -1 if it is one of the ordered lines.
	Count int
	Glob  string
}

// ParseCase reads a case.
func ParseCase(file []byte) (*Case, error) {
	c := &Case{Pods: map[types.UID]*v1.Pod{}}
	sections, err := split(file)
	if err != nil {
		return nil, err
	}
	for _, s := range sections {
		words := strings.Fields(s.name)
		switch {
		case s.name == "":
			c.Text = s.body
		case s.name == "script":
			c.Script, err = parseLines(s.body, parseStep)
		case s.name == "trace":
			c.Trace, err = parseLines(s.body, parsePattern)
		case words[0] == "pod" && len(words) > 1:
			err = c.addPod(words[1:], s.body)
		default:
			err = errors.New("unknown section: use pod NAME, script or trace")
		}
		if err != nil {
			return nil, fmt.Errorf("section %q: %w", s.name, err)
		}
	}
	if strings.TrimSpace(c.Text) == "" || len(c.Script) == 0 || len(c.Trace) == 0 {
		return nil, errors.New("a case needs a text, a script and a trace")
	}
	return c, nil
}

type section struct{ name, body string }

func split(file []byte) ([]section, error) {
	out := []section{{}}
	lines := bufio.NewScanner(bytes.NewReader(file))
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "-- "); ok {
			name, ok = strings.CutSuffix(name, " --")
			if !ok || strings.TrimSpace(name) == "" {
				return nil, fmt.Errorf("line %q: a section begins with -- name --", line)
			}
			out = append(out, section{name: strings.TrimSpace(name)})
			continue
		}
		last := &out[len(out)-1]
		last.body += line + "\n"
	}
	return out, lines.Err()
}

func parseLines[T any](body string, parse func(string) (T, error)) ([]T, error) {
	var out []T
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		one, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		out = append(out, one)
	}
	return out, nil
}

func (c *Case) addPod(words []string, body string) error {
	p := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(body), p); err != nil {
		return err
	}
	p.Name, p.Namespace, p.UID = words[0], podName("").Namespace, types.UID(words[0])
	if len(words) > 1 {
		uid, ok := strings.CutPrefix(words[1], "uid=")
		if !ok {
			return fmt.Errorf("%q: use uid=UID", words[1])
		}
		p.UID = types.UID(uid)
	}
	fillDefaults(p)
	c.Pods[p.UID] = p
	return nil
}

// fillDefaults does what an API server does to a new pod.
func fillDefaults(p *v1.Pod) {
	s := &p.Spec
	s.NodeName, s.SchedulerName = identity.Node, v1.DefaultSchedulerName
	s.DNSPolicy = v1.DNSDefault
	if s.RestartPolicy == "" {
		s.RestartPolicy = v1.RestartPolicyAlways
	}
	if s.TerminationGracePeriodSeconds == nil {
		s.TerminationGracePeriodSeconds = ptr.To[int64](v1.DefaultTerminationGracePeriodSeconds)
	}
	if s.SecurityContext == nil {
		s.SecurityContext = &v1.PodSecurityContext{}
	}
	s.EnableServiceLinks = ptr.To(true)
	for _, list := range [][]v1.Container{s.InitContainers, s.Containers} {
		for i := range list {
			fillContainer(&list[i])
		}
	}
	for i := range s.EphemeralContainers {
		e := v1.Container(s.EphemeralContainers[i].EphemeralContainerCommon)
		fillContainer(&e)
		s.EphemeralContainers[i].EphemeralContainerCommon = v1.EphemeralContainerCommon(e)
	}
}

func fillContainer(c *v1.Container) {
	if c.Image == "" {
		c.Image = "busybox:1"
	}
	if c.ImagePullPolicy == "" {
		c.ImagePullPolicy = v1.PullIfNotPresent
	}
	if c.TerminationMessagePath == "" {
		c.TerminationMessagePath = v1.TerminationMessagePathDefault
	}
	if c.TerminationMessagePolicy == "" {
		c.TerminationMessagePolicy = v1.TerminationMessageReadFile
	}
	for _, p := range []*v1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			fillProbe(p)
		}
	}
}

func fillProbe(p *v1.Probe) {
	for _, n := range []struct {
		field *int32
		value int32
	}{{&p.TimeoutSeconds, 1}, {&p.PeriodSeconds, 10}, {&p.SuccessThreshold, 1}, {&p.FailureThreshold, 3}} {
		if *n.field == 0 {
			*n.field = n.value
		}
	}
	if p.HTTPGet != nil && p.HTTPGet.Scheme == "" {
		p.HTTPGet.Scheme = v1.URISchemeHTTP
	}
}

func parseStep(line string) (Step, error) {
	s := Step{Line: line}
	words := strings.Fields(line)
	if len(words) < 2 {
		return s, errors.New("use TIME COMMAND")
	}
	from, to, err := parseTime(words[0])
	if err != nil {
		return s, err
	}
	s.From, s.To, s.Command, s.Args = from, to, words[1], words[2:]
	if commands[s.Command] == nil {
		return s, fmt.Errorf("unknown command %q", s.Command)
	}
	return s, nil
}

// parseTime reads "5s" or "5s..7s".
func parseTime(word string) (from, to time.Duration, err error) {
	a, b, ranged := strings.Cut(word, "..")
	if from, err = time.ParseDuration(a); err != nil || !ranged {
		return from, from, err
	}
	to, err = time.ParseDuration(b)
	return from, to, err
}

func parsePattern(line string) (Pattern, error) {
	p := Pattern{Line: line, Count: -1}
	first, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	p.Glob = line
	if first == "never" {
		p.Count, p.Glob = 0, rest
		return p, nil
	}
	if n, more, ok := strings.Cut(rest, " "); ok && n == "times" {
		if _, err := fmt.Sscanf(first, "%d", &p.Count); err != nil {
			return p, err
		}
		p.Glob = strings.TrimSpace(more)
		return p, nil
	}
	if from, to, err := parseTime(first); err == nil {
		p.Timed, p.From, p.To, p.Glob = true, from, to, rest
	}
	return p, nil
}
