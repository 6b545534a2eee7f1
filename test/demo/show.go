// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// show runs the pod and everything one does with it.
func (d *demo) show(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		d.createPod, d.read, d.portForward, d.deletePod,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) createPod(ctx context.Context) error {
	begin := time.Now()
	fmt.Printf("\n$ kubectl create -f test/demo/pod.yaml\n")
	cmd := d.kubectl(ctx, "create", "-f", "-")
	cmd.Stdin = bytes.NewReader(podManifest)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("creating the pod: %w", err)
	}
	if err := d.run(ctx, "wait", "--for=condition=Ready", "pod/demo", "--timeout=60s"); err != nil {
		return err
	}
	say(begin, "the pod is Ready")
	return nil
}

func (d *demo) read(ctx context.Context) error {
	for _, args := range [][]string{
		{"get", "node,pod", "-o", "wide"},
		{"logs", "demo", "-c", "web"},
		{"logs", "demo", "-c", "worker", "--timestamps"},
		{"exec", "demo", "-c", "worker", "--", "sh", "-c", "hostname; cat /proc/1/cmdline | tr '\\0' ' '; echo"},
	} {
		if err := d.run(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

// run prints a kubectl command and runs it.
func (d *demo) run(ctx context.Context, args ...string) error {
	fmt.Printf("\n$ kubectl %s\n", strings.Join(args, " "))
	if err := d.kubectl(ctx, args...).Run(); err != nil {
		return fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

func (d *demo) kubectl(ctx context.Context, args ...string) *exec.Cmd {
	cmd := d.cluster.KubectlCommand(ctx, args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

var forwarding = regexp.MustCompile(`^Forwarding from (127\.0\.0\.1:\d+)`)

// portForward asks the pod's web server for its page through kubectl port-forward.
func (d *demo) portForward(ctx context.Context) error {
	fmt.Printf("\n$ kubectl port-forward pod/demo :8080 & curl http://127.0.0.1:PORT/\n")
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := d.kubectl(ctx, "port-forward", "--address", "127.0.0.1", "pod/demo", ":8080")
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting kubectl port-forward: %w", err)
	}
	err = fetch(ctx, out)
	cancel()
	_ = cmd.Wait() // It ends by the cancelled context.
	return err
}

func fetch(ctx context.Context, out io.Reader) error {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		m := forwarding.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+m[1]+"/", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return fmt.Errorf("asking the pod through port-forward: %w", err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the pod's web server answered %s: %w", resp.Status, err)
		}
		fmt.Printf("%s\n%s", resp.Status, body)
		return nil
	}
	return fmt.Errorf("kubectl port-forward ended before it forwarded")
}

// deletePod deletes the pod while its log is followed, so that the preStop hook is seen at work.
func (d *demo) deletePod(ctx context.Context) error {
	fmt.Printf("\n$ kubectl logs -f demo -c worker & kubectl delete pod demo\n")
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var seen bytes.Buffer
	follow := d.kubectl(ctx, "logs", "-f", "demo", "-c", "worker")
	follow.Stdout = io.MultiWriter(os.Stdout, &seen)
	if err := follow.Start(); err != nil {
		return fmt.Errorf("starting kubectl logs: %w", err)
	}
	begin := time.Now()
	err := d.kubectl(ctx, "delete", "pod", "demo").Run()
	if waited := follow.Wait(); err == nil && waited != nil {
		err = waited
	}
	if err != nil {
		return fmt.Errorf("deleting the pod: %w", err)
	}
	if !strings.Contains(seen.String(), "preStop hook saves the work") {
		return fmt.Errorf("the preStop hook was not seen in the log of the pod")
	}
	say(begin, "the pod was stopped with its hook, then its object was deleted")
	return nil
}

// handOver says how to go on by hand.
func (d *demo) handOver() {
	fmt.Printf(`
The cluster stays up. Go on by hand:

  export KUBECONFIG=%s PATH=%s:$PATH
  kubectl get nodes -o wide
  kubectl create -f test/demo/pod.yaml
  kubectl exec -it demo -c worker -- sh

Logs of every part: %s
A shell on the remote host: %s bash
Remove everything: make demo-down
`, d.cluster.Kubeconfig(), d.cluster.Bin(), d.cluster.LogDir(), filepath.Join(d.host.Dir(), "enter"))
}
