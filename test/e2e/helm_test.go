// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/test/chart"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

const (
	// imageVersion is the tag of the image that the tests assemble.
	imageVersion = "e2e"
	// heldPods run while the release is changed.
	heldPods = 20
	// helmTimeout is for a node to be Ready from nothing.
	helmTimeout = "5m"
	// linkSecret is the Secret of the link.
	linkSecret = "link"
	// processes selects the pods of nodes' processes.
	processes = "tombolo.dev/node"
	// everyKind are the kinds of objects that a chart may have, those of its tests and of the objects of its objects among them.
	everyKind = "pods,deployments,replicasets,services,endpointslices,configmaps,secrets,serviceaccounts,networkpolicies,poddisruptionbudgets," +
		"roles,rolebindings,clusterroles,clusterrolebindings,nodes,jobs"
)

// release is the chart, installed for one node whose process runs in a pod of another.
type release struct {
	*testing.T
	chart.Release
	env *environment
}

// TestHelmRelease follows releases from their installation to their end, as docs/install-helm.md tells it: with the image that
// make image makes, in a namespace that takes restricted pods only.
func TestHelmRelease(t *testing.T) {
	t.Parallel()
	e := require(t)
	quay := e.ownSite(t, "quay")
	must(t, e.importImage(t, quay))
	t.Run("tls", func(t *testing.T) { follow(t, quay, e.newSite("skiff")) })
	t.Run("ssh", func(t *testing.T) {
		dinghy := e.newSite("dinghy")
		dinghy.sshUser = testbed.SSHUser
		follow(t, quay, dinghy)
	})
	t.Run("reverse", func(t *testing.T) {
		raft := e.newSite("raft")
		raft.reverse = true
		follow(t, quay, raft)
	})
}

// follow installs a release whose pod runs on one site and makes the machine of another a node, changes it and removes it.
func follow(t *testing.T, from, to *site) {
	to.closeAfter(t)
	must(t, to.startMachine(t.Context()))
	k := on(t, to)
	r := newRelease(t, from, to)
	if to.reverse {
		r.balance(to)
	}

	r.helm("install", append(r.Args(), "--wait", "--timeout", helmTimeout)...)
	if condition, err := to.readyCondition(t.Context()); err != nil || condition.Status != v1.ConditionTrue {
		t.Errorf("after helm install --wait the node's condition is %+v, %v", condition, err)
	}
	held := make([]unchanged, heldPods)
	for i := range held {
		held[i].pod = k.create(k.pod(fmt.Sprintf("held-%02d", i), `trap "exit 0" TERM; echo running; sleep 1d & while :; do wait; done`, everywhere))
	}
	for i := range held {
		held[i] = k.hold(held[i].pod)
	}
	requireSame := func(t *testing.T) {
		t.Helper()
		k := k.part(t)
		eventually(t, usual, "a log by way of the new process", func() error {
			to.approveServing(t)
			if got, err := k.tryKubectl(nil, "logs", held[0].pod.Name); got != "running\n" {
				return fmt.Errorf("%q, %w", got, err)
			}
			return nil
		})
		for _, u := range held {
			k.requireUnchanged(u)
		}
	}
	requireSame(t)

	t.Run("helm test", func(t *testing.T) {
		r := r.part(t)
		out := r.helm("test", r.Name, "--namespace", r.Namespace, "--timeout", helmTimeout, "--logs")
		if !strings.Contains(out, "A pod runs on "+to.name) {
			t.Errorf("it shows no log of a pod on the node:\n%s", out)
		}
		if pods := r.pods("app.kubernetes.io/name=tombolo-test"); pods != "" {
			t.Errorf("it left %s", pods)
		}
	})
	for _, change := range []struct {
		name string
		args []string
	}{
		{"upgrade", append(r.Args(), "--set", "logLevel=2")},
		{"rollback", []string{r.Name, "1", "--namespace", r.Namespace}},
	} {
		t.Run("helm "+change.name, func(t *testing.T) {
			r := r.part(t)
			was := r.pods(processes)
			r.helm(change.name, append(change.args, "--wait", "--timeout", helmTimeout)...)
			if now := r.pods(processes); now == was {
				t.Errorf("the process is still that of %s", now)
			}
			requireSame(t)
		})
	}
	t.Run("helm uninstall", func(t *testing.T) {
		r := r.part(t)
		k.kubectl("drain", to.name, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout", helmTimeout)
		eventually(t, usual, "an empty machine", func() error {
			if left, err := to.host.Crictl(t.Context(), "pods", "-q"); err != nil || left != "" {
				return fmt.Errorf("there are %q, %w", left, err)
			}
			return nil
		})
		r.helm("uninstall", r.Name, "--namespace", r.Namespace, "--wait", "--timeout", helmTimeout)
		k.kubectl("delete", "node", to.name)
		eventually(t, usual, "nothing of the release is in the cluster", r.nothingLeft)
		if pids := to.hostProcesses(t); len(pids) > 0 {
			t.Errorf("left running on the machine: %v", pids)
		}
	})
}

// everywhere lets a pod onto nodes with taints.
func everywhere(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}} }

// newRelease prepares what a user makes before the installation: a namespace, the secret of the link and the values.
func newRelease(t *testing.T, from, to *site) *release {
	t.Helper()
	e := to.env
	r := &release{T: t, env: e, Release: chart.Release{Chart: "../../charts/tombolo", Name: "voyage-" + to.name, Namespace: "harbour-" + to.name}}
	_, err := e.cluster.Client().CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: r.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			r.report(from)
		}
		_ = e.cluster.Client().CoreV1().Namespaces().Delete(context.Background(), r.Namespace, metav1.DeleteOptions{})
	})
	e.awaitAccount(t, r.Namespace)
	secret, values := to.linkValues(t)
	_, err = e.cluster.Kubectl(t.Context(), append([]string{"create", "secret", "generic", linkSecret, "-n", r.Namespace}, secret...)...)
	must(t, err)
	server, err := url.Parse(e.cluster.Server())
	must(t, err)
	// The addresses of Services lead nowhere on the testbed. The API server verifies serving certificates there.
	values = fmt.Sprintf(`
image: {tag: %s, pullPolicy: Never}
nodeSelector: {kubernetes.io/hostname: %s}
identity: {servingCertificate: true}
extraEnv:
  - {name: KUBERNETES_SERVICE_HOST, value: %q}
  - {name: KUBERNETES_SERVICE_PORT, value: %q}
nodes:
  - name: %s
`, imageVersion, from.name, server.Hostname(), server.Port(), to.name) + values
	file := filepath.Join(t.TempDir(), "values.yaml")
	must(t, os.WriteFile(file, []byte(values), 0o600))
	r.Values = []string{file}
	return r
}

// linkValues are what the Secret of the link to the site is made from, and the rest of the node's entry in the values.
func (s *site) linkValues(t *testing.T) (secret []string, values string) {
	t.Helper()
	if s.sshUser == "" {
		link := "tls://" + s.linkAddress()
		if s.reverse {
			link = "reverse://" + s.name
		}
		return []string{
				"--from-file=ca.crt=" + s.linkFile("ca.crt"), "--from-file=tls.crt=" + s.linkFile("node-"+s.name+".crt"),
				"--from-file=tls.key=" + s.linkFile("node-"+s.name+".key"),
			}, fmt.Sprintf(`    link: %s
    tls: {existingSecret: %s}
`, link, linkSecret)
	}
	known, err := os.ReadFile(s.ssh.KnownHosts)
	must(t, err)
	return []string{"--from-file=ssh-privatekey=" + s.ssh.KeyFile}, fmt.Sprintf(`    link: ssh://%s@%s
    ssh: {existingSecret: %s, knownHosts: %q, sudo: true}
    extraArgs: [--host-ssh-cache-dir=%s, --host-containerd=%s, --root-dir=%s, --pod-logs-dir=%s]
`, s.sshUser, s.host.Address(), linkSecret, known, s.cacheDir(), s.host.ContainerdSocket(), s.rootDir(), s.logsDir())
}

// balance stands for the load balancer of the Service to which the host of a reverse link connects: it forwards connections to
// the Service's endpoint of the moment.
func (r *release) balance(to *site) {
	r.Helper()
	listener, err := (&net.ListenConfig{}).Listen(r.Context(), "tcp", to.listenAddress())
	must(r.T, err)
	var connections sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	r.Cleanup(func() {
		cancel()
		_ = listener.Close()
		connections.Wait()
	})
	service := fmt.Sprintf("%s-tombolo-%s-link", r.Name, to.name)
	connections.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() {
				defer in.Close()
				if out, err := r.dialService(ctx, service); err == nil {
					pipe(ctx, in, out)
				}
			})
		}
	})
}

// dialService connects to an endpoint of a Service.
func (r *release) dialService(ctx context.Context, service string) (net.Conn, error) {
	list, err := r.env.cluster.Client().DiscoveryV1().EndpointSlices(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	if err != nil {
		return nil, err
	}
	for _, slice := range list.Items {
		for _, endpoint := range slice.Endpoints {
			if terminating := endpoint.Conditions.Terminating; terminating == nil || !*terminating {
				return (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(endpoint.Addresses[0], fmt.Sprint(*slice.Ports[0].Port)))
			}
		}
	}
	return nil, errNotYet
}

// pipe copies both ways until either end closes, or ctx ends.
func pipe(ctx context.Context, a, b net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		_ = a.Close()
		_ = b.Close()
	})()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		both.Go(func() {
			defer cancel()
			_, _ = io.Copy(way[0], way[1])
		})
	}
	both.Wait()
}

// nothingLeft says what of the release is in the cluster.
func (r *release) nothingLeft() error {
	left, err := r.env.cluster.Kubectl(r.Context(), "get", everyKind, "-A", "-l", "app.kubernetes.io/instance="+r.Name, "-o", "name")
	if err != nil || left != "" {
		return fmt.Errorf("there are %q, %w", left, err)
	}
	return nil
}

func (r *release) part(t *testing.T) *release { return &release{T: t, Release: r.Release, env: r.env} }

// helm runs helm on the cluster and returns what it says.
func (r *release) helm(command string, args ...string) string {
	r.Helper()
	out, err := chart.Helm(r.Context(), append([]string{command, "--kubeconfig", r.env.cluster.Kubeconfig()}, args...)...)
	must(r.T, err)
	return out
}

// pods returns the names of some pods of the release.
func (r *release) pods(selector string) string {
	r.Helper()
	out, err := r.env.cluster.Kubectl(r.Context(), "get", "pods", "-n", r.Namespace, "-l", selector, "-o", "name")
	must(r.T, err)
	return strings.TrimSpace(out)
}

// report prints what helps to understand a failure.
func (r *release) report(from *site) {
	for _, args := range [][]string{
		{"get", "pods", "-o", "yaml"}, {"get", "events", "--sort-by=.lastTimestamp"}, {"logs", "-l", processes, "--tail", "100"},
	} {
		out, err := r.env.cluster.Kubectl(context.Background(), append(args, "-n", r.Namespace)...)
		r.Logf("$ kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
	out, err := from.host.Crictl(context.Background(), "ps", "-a")
	r.Logf("$ crictl ps -a\n%s%v", out, err)
}

// importImage assembles the image and puts it on the machine of a site.
func (e *environment) importImage(t *testing.T, s *site) error {
	t.Helper()
	archive := filepath.Join(e.cluster.StateDir(), "tombolo-image.tar")
	cmd := e.cluster.Command(t.Context(), "go", "run", "-C", "../../tools", "./cmd/image", "-version", imageVersion, "-arch", runtime.GOARCH, "-out", archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("assembling the image: %w\n%s", err, out)
	}
	_, err := s.host.Exec(t.Context(), "ctr", "--namespace", "k8s.io", "images", "import", archive)
	return err
}
