// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// read returns what a pod wrote into a mark.
func (k *tester) read(name string) string {
	k.Helper()
	content, err := os.ReadFile(k.mark(name))
	must(k.T, err)
	return string(content)
}

// fetch gets a page from a port of the host.
func (k *tester) fetch(port int32, page string) (string, error) {
	return k.page("http://" + net.JoinHostPort(k.ownAddress(), fmt.Sprint(port)) + "/" + page)
}

// page gets a page of the host or of a pod on it, from this side if there is a way.
func (k *tester) page(url string) (string, error) {
	if k.reverse { // nothing gets in from outside
		at, path, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		address, port, err := net.SplitHostPort(at)
		if err != nil {
			return "", err
		}
		return k.host.Exec(k.Context(), "bash", "-c", `exec 3<>"/dev/tcp/$1/$2" && printf 'GET /%s HTTP/1.0\r\n\r\n' "$3" >&3 && sed '1,/^\r$/d' <&3`,
			"bash", address, port, path)
	}
	request, err := http.NewRequestWithContext(k.Context(), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// bound binds a pod to the node without the scheduler, which would keep back what cannot run there.
func bound(node string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.NodeName, p.Spec.NodeSelector = node, nil }
}

// TestHostsFileOfAPod: the pod knows its own name, with its domain, and the aliases; a change of its own lasts until a
// container starts.
func TestHostsFileOfAPod(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("db-0", `cat /etc/hosts > /marks/hosts; hostname > /marks/name; touch /marks/told; echo mine >> /etc/hosts; sleep 1d`, func(p *v1.Pod) {
		p.Spec.Hostname, p.Spec.Subdomain = "db-0", "db"
		p.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"nine", "nine.example"}}}
	}))
	got := k.awaitPodReady(pod)
	k.awaitMark("told")
	domain := "db." + k.namespace + ".svc"
	want := "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\n" +
		"fe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n" +
		got.Status.PodIP + "\tdb-0." + domain + "\tdb-0\n\n# Entries added by HostAliases.\n192.0.2.9\tnine\tnine.example\n"
	if is := k.read("hosts"); is != want {
		t.Errorf("hosts file\n%s\nwant\n%s", is, want)
	}
	if name := k.read("name"); name != "db-0\n" {
		t.Errorf("host name %q", name)
	}

	full := k.create(k.pod("full", `hostname > /marks/full`, restart(v1.RestartPolicyNever), func(p *v1.Pod) {
		p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = "f", "db", ptr.To(true)
	}))
	k.awaitPhase(full, v1.PodSucceeded)
	if name := k.read("full"); name != "f."+domain+"\n" {
		t.Errorf("host name %q, want the full one", name)
	}
	long := k.create(k.pod("long", `true`, func(p *v1.Pod) {
		p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SetHostnameAsFQDN = strings.Repeat("x", 60), "db", ptr.To(true)
	}))
	k.awaitEvent(long, "FailedCreatePodSandBox", "is too long (64 characters is the max")
}

// TestPodWithTheHostsNamespaces is on the host's network, sees its processes and its IPC, and has its address and names.
func TestPodWithTheHostsNamespaces(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("host", `for n in net pid ipc; do readlink /proc/self/ns/$n; done > /marks/namespaces
hostname >> /marks/namespaces; cat /etc/hosts > /marks/hosts; echo here > /tmp/page; httpd -f -p 18081 -h /tmp`, func(p *v1.Pod) {
		p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.HostIPC = true, true, true
		p.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"nine"}}}
		p.Spec.Containers[0].ReadinessProbe = &v1.Probe{ProbeHandler: v1.ProbeHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(18081)}}, PeriodSeconds: 1}
	}))
	got := k.awaitPodReady(pod) // the probe goes to the host's address
	if got.Status.PodIP != k.ownAddress() || got.Status.HostIP != got.Status.PodIP {
		t.Errorf("pod at %s, host at %s, want %s for both", got.Status.PodIP, got.Status.HostIP, k.ownAddress())
	}
	want := ""
	for _, namespace := range []string{"net", "pid", "ipc"} {
		out, err := k.host.Exec(t.Context(), "readlink", "/proc/self/ns/"+namespace)
		must(t, err)
		want += out
	}
	want += k.name + "\n"
	if is := k.read("namespaces"); is != want {
		t.Errorf("namespaces and name\n%s\nwant those of the host\n%s", is, want)
	}
	hosts, err := k.host.Exec(t.Context(), "cat", "/etc/hosts")
	must(t, err)
	if is, want := k.read("hosts"), "# Kubernetes-managed hosts file (host network).\n"+hosts+"\n# Entries added by HostAliases.\n192.0.2.9\tnine\n"; is != want {
		t.Errorf("hosts file\n%s\nwant\n%s", is, want)
	}
	if page, err := k.fetch(18081, "page"); err != nil || page != "here\n" {
		t.Errorf("page %q, %v", page, err)
	}
}

// TestPortOfTheHostLeadsToThePod and to one only.
func TestPortOfTheHostLeadsToThePod(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	mapped := func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 8080, HostPort: 18080}}
	}
	pod := k.create(k.pod("mapped", `echo pod > /tmp/page; httpd -f -p 8080 -h /tmp`, mapped))
	k.awaitPodReady(pod)
	eventually(t, usual, "the port of the host", func() error {
		page, err := k.fetch(18080, "page")
		if err == nil && page != "pod\n" {
			err = errors.New(page)
		}
		return err
	})
	second := k.create(k.pod("second", `sleep 1d`, mapped, bound(k.name)))
	rejected := k.awaitPhase(second, v1.PodFailed)
	if rejected.Status.Reason != "NodePorts" || !strings.Contains(rejected.Status.Message, "didn't have free ports") {
		t.Errorf("%s: %s", rejected.Status.Reason, rejected.Status.Message)
	}
	k.remove(pod)
	k.awaitGone(pod, usual)
	if page, err := k.fetch(18080, "page"); err == nil {
		t.Errorf("the port still leads somewhere: %q", page)
	}
}

// TestSysctlsOfAPod: a safe one is set, another one is refused.
func TestSysctlsOfAPod(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	setting := func(name, value string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.RestartPolicy = v1.RestartPolicyNever
			p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: name, Value: value}}}
		}
	}
	safe := k.create(k.pod("safe", `cat /proc/sys/net/ipv4/ip_local_port_range > /marks/range`, setting("net.ipv4.ip_local_port_range", "20000 30000")))
	k.awaitPhase(safe, v1.PodSucceeded)
	if got := strings.Fields(k.read("range")); len(got) != 2 || got[0] != "20000" || got[1] != "30000" {
		t.Errorf("range %q", got)
	}
	forbidden := k.create(k.pod("unsafe", `true`, setting("net.core.somaxconn", "1000")))
	got := k.awaitPhase(forbidden, v1.PodFailed)
	if got.Status.Reason != "SysctlForbidden" || got.Status.Message != `Pod was rejected: forbidden sysctl: "net.core.somaxconn" not allowlisted` {
		t.Errorf("%s: %s", got.Status.Reason, got.Status.Message)
	}
}

// TestRuntimeClassChoosesTheHandler of the host's containerd, and one that it does not have is told of.
func TestRuntimeClassChoosesTheHandler(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	for handler, class := range map[string]string{"runc": k.namespace + "-runc", "nosuch": k.namespace + "-nosuch"} {
		_, err := k.client().NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: class}, Handler: handler,
			Overhead: &nodev1.Overhead{PodFixed: v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Mi")}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	classed := func(handler string) func(*v1.Pod) {
		return func(p *v1.Pod) { p.Spec.RuntimeClassName = ptr.To(k.namespace + "-" + handler) }
	}
	good := k.create(k.pod("good", `sleep 1d`, classed("runc")))
	k.awaitPodReady(good)
	if boxes := k.sandboxes(good); len(boxes) != 1 || boxes[0].GetRuntimeHandler() != "runc" {
		t.Errorf("sandboxes %v, want one of handler runc", boxes)
	}
	k.awaitEvent(k.create(k.pod("bad", `sleep 1d`, classed("nosuch"))), "FailedCreatePodSandBox", `no runtime for "nosuch" is configured`)
}
