// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tombolo-dev/tombolo/test/images"
)

func TestTestbed(t *testing.T) {
	c := StartT(t, Options{})
	for _, name := range []string{"edge-1", "edge-2"} {
		if _, err := c.AddHost(t.Context(), name, HostOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("PodRunsAndIsReachableFromThisSide", func(t *testing.T) { testPod(t, c.Host("edge-1")) })
	t.Run("HostsAreApart", func(t *testing.T) { testHostsAreApart(t, c.Host("edge-1"), c.Host("edge-2")) })
	t.Run("DisconnectAndReconnect", func(t *testing.T) { testDisconnect(t, c.Host("edge-2")) })
	t.Run("APIServerReachesKubelet", func(t *testing.T) { testKubelet(t, c) })
	t.Run("NodeIdentityIsConfined", func(t *testing.T) { testNodeIdentity(t, c) })
	t.Run("RemovedHostIsGone", func(t *testing.T) { testRemove(t, c) })
	t.Run("KilledTestbedIsCleanedBesideALivingOne", testKilled)
}

// startPod starts a pod of one container through CRI and returns the address of the pod.
func startPod(t *testing.T, h *Host, image string, args ...string) (podIP string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	crictl := func(args ...string) string {
		out, err := h.Crictl(t.Context(), args...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	pod := write("pod.json", fmt.Sprintf(`{"metadata":{"name":"p","namespace":"default","uid":%q},"log_directory":%q,
		"linux":{"cgroup_parent":"/kubepods-%s/p"}}`, t.Name(), dir, h.cluster.id))
	container := write("container.json", fmt.Sprintf(`{"metadata":{"name":"c"},"image":{"image":%q},"args":[%s],"log_path":"c.log"}`,
		image, `"`+strings.Join(args, `","`)+`"`))
	sandbox := crictl("runp", pod)
	crictl("start", crictl("create", sandbox, container, pod))
	return crictl("inspectp", "--output", "go-template", "--template", "{{.status.network.ip}}", sandbox)
}

func get(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func testPod(t *testing.T, h *Host) {
	podIP := startPod(t, h, images.Agnhost, "netexec", "--http-port=8080")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	answer := func() bool {
		body, err := get(ctx, "http://"+net.JoinHostPort(podIP, "8080")+"/echo?msg=hello")
		return err == nil && body == "hello"
	}
	if err := poll(ctx, answer); err != nil {
		t.Fatalf("no answer of the pod at %s: %v", podIP, err)
	}
	running := func() string {
		out, err := h.Crictl(t.Context(), "ps", "--quiet", "--state", "Running")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	before := running()
	for name, stop := range map[string]func() error{
		"stopped": func() error { return h.StopContainerd(t.Context()) }, "killed": h.KillContainerd,
	} {
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if !answer() {
			t.Errorf("the pod does not answer while containerd is %s", name)
		}
		if err := h.StartContainerd(t.Context()); err != nil {
			t.Fatal(err)
		}
		if after := running(); after != before || before == "" {
			t.Errorf("running containers %q before and %q after containerd was %s", before, after, name)
		}
	}
	if groups, _ := filepath.Glob("/sys/fs/cgroup/*/kubepods-" + h.cluster.id); len(groups) > 0 {
		t.Errorf("the pod's cgroup is outside that of the host: %v", groups)
	}
}

func testHostsAreApart(t *testing.T, first, second *Host) {
	if first.Address() == second.Address() || first.PodCIDR().Overlaps(second.PodCIDR()) {
		t.Errorf("addresses %v, %v and pod networks %v, %v", first.Address(), second.Address(), first.PodCIDR(), second.PodCIDR())
	}
	seen := map[string]bool{}
	for _, h := range []*Host{first, second} {
		out, err := h.Exec(t.Context(), "sh", "-c", "hostname; cat /etc/machine-id; grep ':memory:\\|^0::' /proc/self/cgroup; ls /run /sys/class/net")
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Fields(out)
		if lines[0] != h.Name() || !slices.Contains(lines, "eth0") || slices.Contains(lines, bridgeName(h.cluster.id)) {
			t.Errorf("host %s sees\n%s", h.Name(), out)
		}
		if seen[lines[1]] {
			t.Errorf("both hosts have machine id %s", lines[1])
		}
		seen[lines[1]] = true
		if strings.Contains(out, "tombolo-testbed") {
			t.Errorf("host %s sees that its cgroup is not the root:\n%s", h.Name(), out)
		}
	}
	if out, err := second.Exec(t.Context(), "busybox", "ping", "-c", "1", "-W", "5", first.Address().String()); err != nil {
		t.Errorf("hosts do not reach each other: %v\n%s", err, out)
	}
}

func testDisconnect(t *testing.T, h *Host) {
	ping := func() error {
		_, err := h.Exec(t.Context(), "busybox", "ping", "-c", "1", "-W", "1", h.cluster.Address().String())
		return err
	}
	if err := ping(); err != nil {
		t.Fatal(err)
	}
	if err := h.Disconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ping() == nil {
		t.Error("a disconnected host reaches this side")
	}
	if err := h.Reconnect(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := poll(ctx, func() bool { return ping() == nil }); err != nil {
		t.Errorf("a reconnected host does not reach this side: %v", err)
	}
}

// testKubelet serves as the kubelet of a node: the API server must accept its certificate and show its own.
func testKubelet(t *testing.T, c *Cluster) {
	certFile, keyFile, err := c.ServingCert("fake", c.Address())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(c.CAFile())
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca)
	listener, err := net.Listen("tcp", net.JoinHostPort(c.Address().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s asks for %s", r.TLS.PeerCertificates[0].Subject.CommonName, r.URL.Path)
	}))
	server.Listener.Close()
	server.Listener = listener
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients}
	server.StartTLS()
	defer server.Close()

	port := listener.Addr().(*net.TCPAddr).Port
	nodes := c.Client().CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "fake"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: c.Address().String()}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	if _, err := nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	out, err := c.Kubectl(t.Context(), "get", "--raw", "/api/v1/nodes/fake/proxy/pods")
	if want := kubeletClientUser + " asks for /pods"; err != nil || out != want {
		t.Errorf("through the API server: %q, %v, want %q", out, err, want)
	}
}

func testNodeIdentity(t *testing.T, c *Cluster) {
	file, err := c.NodeKubeconfig("confined")
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string) error {
		_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
	if err := create("confined"); err != nil {
		t.Errorf("registering itself: %v", err)
	}
	if err := create("another"); !apierrors.IsForbidden(err) {
		t.Errorf("registering another node: %v, want forbidden", err)
	}
	if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing secrets: %v, want forbidden", err)
	}
}

func testRemove(t *testing.T, c *Cluster) {
	h, err := c.AddHost(t.Context(), "edge-3", HostOptions{WithoutContainerd: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, running := h.containerd(); running {
		t.Error("containerd runs on a host that was asked for without")
	}
	sleeping, err := h.Run("sleep", h.Command(t.Context(), "sleep", "1000"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-sleeping.Done():
	case <-time.After(5 * time.Second):
		t.Error("a process outlived its host")
	}
	if exists(h.Dir()) || c.Host("edge-3") != nil {
		t.Errorf("of the host there is still %s, %v", h.Dir(), c.Host("edge-3"))
	}
	if _, err := net.InterfaceByName(vethName(c.id, h.index)); err == nil {
		t.Error("the link to the host is still there")
	}
	next, err := c.AddHost(t.Context(), "edge-4", HostOptions{WithoutContainerd: true})
	if err != nil {
		t.Fatalf("in the place of a host that was removed: %v", err)
	}
	if next.Address() != h.Address() {
		t.Errorf("the next host is at %s, want the free place at %s", next.Address(), h.Address())
	}
	if err := next.Remove(t.Context()); err != nil {
		t.Error(err)
	}
}

// helperVariable makes this test binary a process that starts a testbed in the folder it names and waits to be killed.
const helperVariable = "TOMBOLO_TESTBED_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperVariable); dir != "" {
		helper(dir)
	}
	os.Exit(m.Run())
}

func helper(dir string) {
	ctx := context.Background()
	c, err := Start(ctx, Options{StateDir: dir})
	if err == nil {
		_, err = c.AddHost(ctx, "doomed", HostOptions{})
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("up")
	select {}
}

func testKilled(t *testing.T) {
	dir, err := os.MkdirTemp("", tempPrefix) //nolint:usetesting // Abandoned looks for folders of this name
	if err != nil {
		t.Fatal(err)
	}
	owner := exec.CommandContext(t.Context(), os.Args[0])
	owner.Env = append(os.Environ(), helperVariable+"="+dir)
	said, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // for a test that fails half way
		_ = owner.Process.Kill()
		_ = owner.Wait()
		if err := Clean(context.Background(), dir, nil); err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	first := make([]byte, 2)
	if _, err := io.ReadFull(said, first); err != nil || string(first) != "up" {
		rest, _ := io.ReadAll(said)
		t.Fatalf("helper: %s%s, %v", first, rest, err)
	}
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	startPod(t, c.Host("doomed"), images.Busybox, "sleep", "1000")

	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	gone := func() bool {
		return !slices.ContainsFunc(c.store.get().Processes, func(p recorded) bool { return p.Name == "etcd" && p.alive() })
	}
	if err := poll(ctx, gone); err != nil {
		t.Error("etcd outlived the process that started it")
	}
	if found, err := Abandoned(); err != nil || !slices.Contains(found, dir) {
		t.Errorf("abandoned testbeds: %v, %v, want %s among them", found, err, dir)
	}
	if found, err := markedProcesses(c.id); err != nil || len(found) == 0 {
		t.Fatalf("nothing to clean up (%v): this test proves nothing", err)
	}
	if err := Clean(t.Context(), dir, t.Output()); err != nil {
		t.Fatal(err)
	}
	if left := traces(t, c.id, dir); len(left) > 0 {
		t.Errorf("left after the clean-up: %v", left)
	}
}

// traces returns everything on the machine that carries the identifier of a testbed or lies in its folder.
func traces(t *testing.T, id, dir string) []string {
	t.Helper()
	var found []string
	if exists(dir) {
		found = append(found, dir)
	}
	processes, err := markedProcesses(id)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		found = append(found, fmt.Sprintf("process %d (%s)", p.PID, p.Name))
	}
	links, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if strings.Contains(l.Name, id) {
			found = append(found, "link "+l.Name)
		}
	}
	groups, err := hierarchies()
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range groups {
		if group := filepath.Join(h.Mount, runCgroup(id)); exists(group) {
			found = append(found, "cgroup "+group)
		}
	}
	for _, list := range []string{"/proc/self/mountinfo", "/proc/net/route"} {
		data, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, dir) || strings.Contains(line, id) {
				found = append(found, list+": "+line)
			}
		}
	}
	if rules, err := exec.CommandContext(t.Context(), "iptables-save").Output(); err == nil && strings.Contains(string(rules), "testbed") {
		found = append(found, "iptables rules:\n"+string(rules))
	}
	return found
}

// TestPortLeadsToTheNetworkOfTheHosts and goes with its addresses.
func TestPortLeadsToTheNetworkOfTheHosts(t *testing.T) {
	c := StartT(t, Options{})
	p, err := c.AddPort(t.Context(), "beyond")
	if err != nil {
		t.Fatal(err)
	}
	link, err := net.InterfaceByName(p.Interface())
	if err != nil {
		t.Fatal(err)
	}
	if !c.addresses().machines().Contains(p.Address().Addr()) || p.Address().Addr() == c.Address() {
		t.Errorf("port %s has the address %s, beside %s", link.Name, p.Address(), c.Address())
	}
	if _, err := c.AddHost(t.Context(), "beyond", HostOptions{}); err == nil {
		t.Error("a host has the name of the port")
	}
	if err := p.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := net.InterfaceByName(link.Name); err == nil {
		t.Errorf("port %s is still there", link.Name)
	}
}
