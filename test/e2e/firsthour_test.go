// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const readme = "README.md"

// TestFirstHour follows the README's first hour by hand, word by word, on a cluster and a machine that have seen nothing of Tombolo, and
// tells how long it took.
func TestFirstHour(t *testing.T) {
	t.Parallel()
	require(t)
	g := newGuide(t, "TestFirstHour")
	documents := []struct {
		name   string
		follow func(*guide)
	}{
		{readme, firstHour},
		{checkGuide, checkedUnderPolicy},
		{reverseGuide, behindNAT},
		{sshGuide, overSSH},
		{helmGuide, withHelm},
	}
	followed := 0
	for _, document := range documents {
		t.Run(document.name, func(t *testing.T) {
			followed++
			g := g.part(t)
			g.open(document.name)
			document.follow(g)
		})
	}
	if followed < len(documents) {
		return // only some were asked for
	}
	for _, b := range g.left {
		t.Errorf("%s: %q was not run", b.Name(), b.First())
	}
}

// firstHour does the seven steps.
func firstHour(g *guide) {
	began := time.Now()
	g.build()
	g.Logf("1. Build: %.1f s", time.Since(began).Seconds())

	g.run(g.desk, g.block(readme, "tombolo pki init"))
	keys := g.desk.file("tombolo-pki")
	g.carry(g.edge, filepath.Join(keys, "ca.crt"), filepath.Join(keys, "host-edge-1.crt"), filepath.Join(keys, "host-edge-1.key"))
	startHost := g.block(readme, "tombolo host --tls-cert-file")
	host := g.start(g.edge, "tombolo-host", startHost)
	g.run(g.desk, g.block(readme, "umask 077"))
	g.carry(g.desk, filepath.Join(keys, "ca.crt"), filepath.Join(keys, "node-edge-1.crt"), filepath.Join(keys, "node-edge-1.key"))
	startNode := g.block(readme, "tombolo node --name edge-1")
	g.startNode(startNode)
	must(g.T, g.node.awaitReady(g.Context()))
	g.says(g.run(g.desk, "kubectl get nodes -o wide\n"), edgeName, "Ready", deskAddress, "containerd://2.")
	g.Logf("until the node was Ready: %.1f s", time.Since(began).Seconds())

	g.says(g.typed(g.desk, g.block(readme, "kubectl create -f -"), "echo This is $(hostname).\nexit\n"), "condition met", "up", "This is hello.")
	was := g.hello()
	g.Logf("until the pod was seen from inside: %.1f s", time.Since(began).Seconds())

	must(g.T, g.node.nodeProc.Kill())
	g.node.nodeProc = g.start(g.desk, "tombolo-node", startNode)
	g.node.awaitLog(g.T, "link is up")
	must(g.T, host.Kill())
	g.node.awaitLinkDown(g.T)
	g.start(g.edge, "tombolo-host", startHost)
	must(g.T, g.node.awaitReady(g.Context()))
	if now := g.hello(); now != was {
		g.Errorf("the pod is %+v, was %+v", now, was)
	}
	end := g.run(g.desk, g.block(readme, "kubectl get pod hello"))
	if !regexp.MustCompile(`hello +1/1 +Running +0 `).MatchString(end) {
		g.Errorf("the pod is not as it was")
	}
	g.says(end, "up\n", "saving\n", "bye\n")
	g.Logf("THE FIRST HOUR TOOK %.1f s", time.Since(began).Seconds())
}

// build makes the program in the repository, and copies it to both places.
func (g *guide) build() {
	g.Helper()
	block := g.block(readme, "make build")
	cmd := exec.CommandContext(g.Context(), "bash", "-euc", block)
	cmd.Dir = repository
	g.finish(cmd, block)
	for _, p := range []*place{g.edge, g.desk} {
		g.put(filepath.Join(repository, "bin/tombolo"), filepath.Join(p.programs(), "tombolo"))
	}
}

// says fails the test unless an output has each of the texts, in this order.
func (g *guide) says(output string, texts ...string) {
	g.Helper()
	rest := output
	for _, text := range texts {
		_, after, found := strings.Cut(rest, text)
		if !found {
			g.Errorf("there is no %q where it was expected in:\n%s", text, output)
			return
		}
		rest = after
	}
}

// helloPod is what must not change of the pod hello.
type helloPod struct {
	uid, container string
	restarts       int32
}

// hello waits until the pod is Ready.
func (g *guide) hello() (out helloPod) {
	g.Helper()
	eventually(g.T, usual, "pod hello is Ready", func() error {
		pod, err := g.cluster.Client().CoreV1().Pods(v1.NamespaceDefault).Get(g.Context(), "hello", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := ready(pod); err != nil {
			return err
		}
		status := pod.Status.ContainerStatuses[0]
		out = helloPod{uid: string(pod.UID), container: status.ContainerID, restarts: status.RestartCount}
		return nil
	})
	return out
}
