// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// bulk is the size of what is sent through kubectl exec and kubectl cp.
const bulk = 100 << 20

func TestExecReturnsOutputErrorsAndExitCodes(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	k.awaitPodReady(k.create(k.pod("shell", "exec sleep 1d")))
	for _, code := range []int{0, 3, 137} {
		_, err := k.tryKubectl(nil, "exec", "shell", "--", "sh", "-c", fmt.Sprintf("exit %d", code))
		got := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			got = exit.ExitCode()
		} else if err != nil {
			got = -1
		}
		if got != code {
			t.Errorf("exit code %d, want %d: %v", got, code, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), usual)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := k.kubectlCommand(ctx, "exec", "-i", "shell", "--", "sh", "-c", "cat; echo to stderr >&2")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("to stdout\n"), &stdout, &stderr
	must(t, cmd.Run())
	if stdout.String() != "to stdout\n" || stderr.String() != "to stderr\n" {
		t.Errorf("stdout %q, stderr %q", stdout.String(), stderr.String())
	}
	if _, err := k.tryKubectl(nil, "exec", "shell", "--", "no-such-program"); err == nil || !strings.Contains(err.Error(), "no-such-program") {
		t.Errorf("exec of a program that is not there: %v", err)
	}
}

// sizes is a terminal that the test resizes.
type sizes chan remotecommand.TerminalSize

func (s sizes) Next() *remotecommand.TerminalSize {
	size, ok := <-s
	if !ok {
		return nil
	}
	return &size
}

// lookout collects what is written and tells when a text has come.
type lookout struct {
	lines chan string
	all   bytes.Buffer
}

func (l *lookout) Write(p []byte) (int, error) {
	l.lines <- string(p)
	return len(p), nil
}

// await reads until the text has come.
func (l *lookout) await(t *testing.T, text string) {
	t.Helper()
	deadline := time.After(usual)
	for !strings.Contains(l.all.String(), text) {
		select {
		case s := <-l.lines:
			l.all.WriteString(s)
		case <-deadline:
			t.Fatalf("no %q in %q", text, l.all.String())
		}
	}
}

func TestTerminalIsResized(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	k.awaitPodReady(k.create(k.pod("terminal", "exec sleep 1d")))
	request := k.client().CoreV1().RESTClient().Post().Namespace(k.namespace).Resource("pods").Name("terminal").SubResource("exec").
		VersionedParams(&v1.PodExecOptions{
			Container: "main", Stdin: true, Stdout: true, TTY: true,
			Command: []string{"sh", "-c", `until [ "$(stty size)" = "25 81" ]; do sleep 0.1; done; echo first; read line; until [ "$(stty size)" = "44 133" ]; do sleep 0.1; done; echo "read $line"; exit 7`},
		}, scheme.ParameterCodec)
	config := k.env.cluster.RESTConfig()
	spdy, err := remotecommand.NewSPDYExecutor(config, "POST", request.URL())
	must(t, err)
	websocket, err := remotecommand.NewWebSocketExecutor(config, "GET", request.URL().String())
	must(t, err)
	for protocol, executor := range map[string]remotecommand.Executor{"SPDY": spdy, "WebSocket": websocket} {
		t.Run(protocol, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), usual)
			defer cancel()
			in, typed := io.Pipe()
			out := &lookout{lines: make(chan string, 100)}
			size := make(sizes, 1)
			size <- remotecommand.TerminalSize{Width: 81, Height: 25}
			ended := make(chan error, 1)
			go func() {
				ended <- executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Tty: true, TerminalSizeQueue: size})
			}()
			out.await(t, "first")
			size <- remotecommand.TerminalSize{Width: 133, Height: 44}
			_, err := io.WriteString(typed, "word\n")
			must(t, err)
			out.await(t, "read word")
			close(size)
			if err := <-ended; err == nil || !strings.Contains(err.Error(), "exit code 7") {
				t.Errorf("ended with %v, want exit code 7", err)
			}
		})
	}
}

// bulkFile makes a file of random bytes and returns its checksum.
func (k *tester) bulkFile() (name, checksum string) {
	k.Helper()
	name = filepath.Join(k.TempDir(), "bulk")
	f, err := os.Create(name)
	must(k.T, err)
	defer f.Close()
	sum := sha256.New()
	_, err = io.CopyN(io.MultiWriter(f, sum), rand.Reader, bulk)
	must(k.T, err)
	return name, hex.EncodeToString(sum.Sum(nil))
}

func checksum(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	must(t, err)
	return hex.EncodeToString(sum.Sum(nil))
}

func TestBulkDataArrivesWhole(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	k.awaitPodReady(k.create(k.pod("bulk", "exec sleep 1d")))
	name, want := k.bulkFile()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()

	got, err := k.tryKubectl(f, "exec", "-i", "bulk", "--", "sh", "-c", "tee /tmp/there | sha256sum")
	must(t, err)
	if !strings.HasPrefix(got, want) {
		t.Errorf("sent through exec: checksum %s, want %s", got, want)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*usual)
	defer cancel()
	sum := sha256.New()
	back := k.kubectlCommand(ctx, "exec", "bulk", "--", "cat", "/tmp/there")
	back.Stdout = sum
	must(t, back.Run())
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("received through exec: checksum %s, want %s", got, want)
	}

	k.kubectl("cp", name, "bulk:/tmp/copied")
	if got := k.kubectl("exec", "bulk", "--", "sha256sum", "/tmp/copied"); !strings.HasPrefix(got, want) {
		t.Errorf("sent through cp: checksum %s, want %s", got, want)
	}
	returned := filepath.Join(t.TempDir(), "returned")
	k.kubectl("cp", "bulk:/tmp/copied", returned)
	if got := checksum(t, returned); got != want {
		t.Errorf("received through cp: checksum %s, want %s", got, want)
	}
}

func TestAttachedInputEndsWithEndOfFile(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("listener", `cat > /tmp/in; echo "got $(wc -c < /tmp/in) bytes"`, restart(v1.RestartPolicyNever), func(p *v1.Pod) {
		p.Spec.Containers[0].Stdin, p.Spec.Containers[0].StdinOnce = true, true
	})))
	input := strings.Repeat("0123456789abcde\n", 1<<16) // 1 MiB
	out, err := k.tryKubectl(strings.NewReader(input), "attach", "-i", "listener")
	must(t, err)
	want := fmt.Sprintf("got %d bytes\n", len(input))
	k.awaitPhase(pod, v1.PodSucceeded)
	if logged := k.kubectl("logs", "listener"); logged != want {
		t.Errorf("logged %q, want %q", logged, want)
	}
	if !strings.Contains(out, want) {
		t.Errorf("attach printed %q, want %q", out, want)
	}
}
