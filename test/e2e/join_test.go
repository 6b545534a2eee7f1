// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

// prepareJoining adds to the command line of tombolo node what lets its host join.
func (s *site) prepareJoining() (err error) {
	if s.listen, err = s.env.cluster.FreePort(); err != nil {
		return err
	}
	s.nodeCommand = append(s.nodeCommand, "--host", "reverse://"+s.name, "--listen", s.listenAddress(), "--join-dir", s.joinDir(), "--join-validity", "3m")
	s.nodeCommand = append(s.nodeCommand, s.nodeArgs...)
	return nil
}

func (s *site) joinDir() string { return filepath.Join(s.env.cluster.StateDir(), "join-"+s.name) }

// token runs tombolo token beside the node, and returns what it printed.
func (s *site) token(ctx context.Context, args ...string) (string, error) {
	out, err := s.env.cluster.Command(ctx, s.env.binary, append(append([]string{"token"}, args...), "--join-dir", s.joinDir())...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tombolo token %v: %w: %s", args, err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// invitation makes a token for the host, once the node is there.
func (s *site) invitation(ctx context.Context) (string, error) {
	for {
		printed, err := s.token(ctx, "create", "--endpoint", s.listenAddress())
		if err == nil {
			return strings.TrimPrefix(printed, "tombolo host join "), nil
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(pollInterval):
		}
	}
}

// joinHost runs tombolo host join on the host.
func (s *site) joinHost(ctx context.Context, invitation string, args ...string) error {
	cmd := s.host.Command(ctx, s.env.binary, append([]string{"host", "join", "-", "--root", s.rootDir()}, args...)...)
	cmd.Stdin = strings.NewReader(invitation)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("tombolo host join: %w: %s", err, out.String())
	}
	return nil
}

func (s *site) join(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	invitation, err := s.invitation(ctx)
	if err != nil {
		return err
	}
	return s.joinHost(ctx, invitation)
}

// TestHostJoinsByAToken: the host makes its key, gets a certificate for its own name, renews it while streams go on, and is
// locked out when it is revoked.
func TestHostJoinsByAToken(t *testing.T) {
	t.Parallel()
	s := require(t).newSite("atoll")
	s.reverse, s.joins = true, true
	s.startFor(t)
	k := on(t, s)
	held := k.hold(k.create(k.pod("settled", `trap "exit 0" TERM; echo running; (while :; do echo tick; sleep 1; done) & while :; do wait; done`)))

	t.Run("the certificate is renewed while a stream goes on", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var streamed bytes.Buffer
		follow := k.kubectlCommand(ctx, "logs", "-f", "settled")
		follow.Stdout = &streamed
		must(t, follow.Start())
		ended := make(chan error, 1)
		go func() { ended <- follow.Wait() }()
		awaitLogTimes(t, s.hostProc, "the host's certificate was renewed", 2)
		log, err := os.ReadFile(s.nodeProc.LogFile())
		must(t, err)
		select {
		case err := <-ended:
			if !strings.Contains(string(log), "has expired, it connects again") {
				t.Errorf("the stream ended: %v", err)
			}
		default:
			cancel()
			<-ended
		}
		if lines := strings.Count(streamed.String(), "tick\n"); lines < 10 {
			t.Errorf("the stream has %d lines", lines)
		}
		// A machine that is so busy that a certificate expires meanwhile is excused.
		if n := strings.Count(string(log), "the host has connected"); n != 1+strings.Count(string(log), "has expired, it connects again") {
			t.Errorf("the host connected %d times", n)
		}
		k.requireUnchanged(held)
	})
	t.Run("what is wrong is refused", func(t *testing.T) {
		invitation, err := s.invitation(t.Context())
		must(t, err)
		refused := func(what, invitation, says string, args ...string) {
			t.Helper()
			if err := s.joinHost(t.Context(), invitation, args...); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want %q", what, err, says)
			}
			awaitLog(t, s.nodeProc, says)
		}
		refused("another's name", invitation, "the host asks for another name", "--name", "mainland")
		must(t, s.joinHost(t.Context(), invitation))
		refused("a replayed token", invitation, "the token was used already")
		brief, err := s.token(t.Context(), "create", "--endpoint", s.listenAddress(), "--validity", "1ns")
		must(t, err)
		refused("an expired token", strings.TrimPrefix(brief, "tombolo host join "), "the token has expired")
		metrics := k.nodeMetrics()
		for _, result := range []string{"refused_name", "refused_token", "joined", "renewed"} {
			if counted := `tombolo_node_joins_total{result="` + result + `"}`; !strings.Contains(metrics, counted) || strings.Contains(metrics, counted+" 0\n") {
				t.Errorf("%s is not counted", result)
			}
		}
	})
	t.Run("what was given is revoked", func(t *testing.T) {
		_, err := s.token(t.Context(), "revoke")
		must(t, err)
		s.awaitLinkDown(t, "reverse://"+s.name)
		awaitLog(t, s.hostProc, "the certificate was revoked")
		awaitLog(t, s.nodeProc, "the certificate was revoked")
		must(t, s.join(t.Context()))
		must(t, s.awaitReady(t.Context()))
		k.requireUnchanged(held)
	})
}

// awaitLogTimes waits until so many lines of a process's log have a text.
func awaitLogTimes(t *testing.T, p *testbed.Process, text string, n int) {
	t.Helper()
	eventually(t, usual, fmt.Sprintf("%d lines with %q in %s", n, text, p.LogFile()), func() error {
		log, err := os.ReadFile(p.LogFile())
		if got := strings.Count(string(log), text); err == nil && got < n {
			err = fmt.Errorf("there are %d", got)
		}
		return err
	})
}
