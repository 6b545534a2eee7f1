// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

func TestLogsAreSelected(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("talker", `for i in 1 2 3 4 5; do echo line $i; done; until [ -e /marks/go ]; do sleep 0.1; done; echo line 6; exec sleep 1d`)))
	eventually(t, usual, "five lines", func() error {
		if got := k.kubectl("logs", "talker"); got != "line 1\nline 2\nline 3\nline 4\nline 5\n" {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
	time.Sleep(3 * time.Second) // so that --since can tell the last line from the others
	since := time.Now()
	k.put("go")
	eventually(t, usual, "the sixth line", func() error {
		if got := k.kubectl("logs", "talker", "--tail=1"); got != "line 6\n" {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
	if got := k.kubectl("logs", "talker", "--tail=2"); got != "line 5\nline 6\n" {
		t.Errorf("--tail=2: %q", got)
	}
	if got := k.kubectl("logs", "talker", "--since-time="+since.Add(-time.Second).UTC().Format(time.RFC3339)); got != "line 6\n" {
		t.Errorf("--since-time: %q", got)
	}
	if got := k.kubectl("logs", "talker", "--limit-bytes=10"); got != "line 1\nlin" {
		t.Errorf("--limit-bytes=10: %q", got)
	}
	stamp, text, _ := strings.Cut(k.kubectl("logs", "talker", "--timestamps", "--tail=1"), " ")
	at, err := time.Parse(time.RFC3339Nano, stamp)
	if err != nil || text != "line 6\n" || at.Sub(since).Abs() > 5*time.Second {
		t.Errorf("--timestamps: %q %q (%v)", stamp, text, err)
	}
	if _, err := k.tryKubectl(nil, "logs", "talker", "--previous"); err == nil || !strings.Contains(err.Error(), "previous terminated container") {
		t.Errorf("--previous of a container that never ended: %v", err)
	}
	k.remove(pod)
}

func TestLogsOfThePreviousContainer(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("again", `echo x >> /marks/starts; echo "start $(wc -l < /marks/starts)"; test $(wc -l < /marks/starts) -ge 2 && exec sleep 1d`))
	k.await(pod, usual, "runs again", func(p *v1.Pod) error {
		for _, c := range p.Status.ContainerStatuses {
			if c.RestartCount == 1 && c.State.Running != nil {
				return nil
			}
		}
		return errNotYet
	})
	k.awaitLines("starts", 2)
	eventually(t, usual, "what the second run says", func() error {
		if k.kubectl("logs", "again") == "" {
			return errNotYet
		}
		return nil
	})
	if got := k.kubectl("logs", "again", "--previous"); got != "start 1\n" {
		t.Errorf("--previous: %q", got)
	}
	if got := k.kubectl("logs", "again"); got != "start 2\n" {
		t.Errorf("without --previous: %q", got)
	}
}

// TestFollowedLogsComeAtOnceAndEndWithTheContainer.
func TestFollowedLogsComeAtOnceAndEndWithTheContainer(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	k.awaitPodReady(k.create(k.pod("teller", `echo once; until [ -e /marks/go ]; do sleep 0.1; done; echo upon; until [ -e /marks/end ]; do sleep 0.1; done; echo a time`,
		restart(v1.RestartPolicyNever))))
	ctx, cancel := context.WithTimeout(t.Context(), usual)
	defer cancel()
	cmd := k.kubectlCommand(ctx, "logs", "-f", "teller")
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	lines := bufio.NewScanner(pipe)
	for _, step := range []struct{ line, then string }{{"once", "go"}, {"upon", "end"}, {"a time", ""}} {
		if !lines.Scan() || lines.Text() != step.line {
			t.Fatalf("got %q (%v), want %q", lines.Text(), lines.Err(), step.line)
		}
		if step.then != "" {
			k.put(step.then)
		}
	}
	if lines.Scan() {
		t.Errorf("and then %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("kubectl logs -f ended with %v", err)
	}
}
