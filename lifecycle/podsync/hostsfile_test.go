// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// hostsMount is where a container's hosts file is, "" if it has none.
func (b *bench) hostsMount(t *testing.T, container string) string {
	t.Helper()
	for _, m := range b.newest(t, container).Config.GetMounts() {
		if m.GetContainerPath() == "/etc/hosts" {
			if m.GetReadonly() || !m.GetSelinuxRelabel() {
				t.Errorf("mount %v, want a writable and relabelled one", m)
			}
			return m.GetHostPath()
		}
	}
	return ""
}

func TestContainersShareAHostsFileWithTheAddressOfTheirSandbox(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web,own")
		b.pod.Spec.Hostname, b.pod.Spec.Subdomain = "h", "s"
		b.pod.Spec.HostAliases = []v1.HostAlias{{IP: "192.0.2.9", Hostnames: []string{"nine"}}}
		b.pod.Spec.Containers[1].VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}}
		b.mustSync(t)
		if got := b.hostsMount(t, "web"); got != "/pods/uid-1/etc-hosts" {
			t.Errorf("the hosts file is %q", got)
		}
		if got := b.hostsMount(t, "own"); got != "" {
			t.Errorf("a container with its own got %q", got)
		}
		ip := b.observe(t).IPs[0]
		if want := ip + "\th.s.default.svc.cluster.local\th\n\n# Entries added by HostAliases.\n192.0.2.9\tnine\n"; !strings.HasSuffix(b.files.hosts, want) {
			t.Errorf("content %q, want it to end with %q", b.files.hosts, want)
		}
		b.files.hosts = ""
		b.exit(t, "web", 0)
		b.mustSync(t)
		if !strings.Contains(b.files.hosts, ip) {
			t.Errorf("a restart in the same sandbox wrote %q, want the pod's address %s", b.files.hosts, ip)
		}
	})
}

func TestPodOnTheHostsNetworkHasTheHostsFileAndAddress(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.pod.Spec.HostNetwork = true
		b.facts.Hosts = "127.0.0.1 localhost\n"
		b.pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{
			HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80)},
		}}
		b.mustSync(t)
		if diff := cmp.Diff("# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n", b.files.hosts); diff != "" {
			t.Errorf("hosts file (-want +got):\n%s", diff)
		}
		if got := b.hooks.requests[0].HTTPGet.Host; got != "192.0.2.1" {
			t.Errorf("the postStart request goes to %q, want the host's address", got)
		}
	})
}

func TestHostsFileThatCannotBeWrittenIsToldOfTheContainer(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.files.err = errors.New("disk full")
		if r := b.sync(t); r.Err == nil {
			t.Error("no error")
		}
		b.wantWaiting(t, "web", "CreateContainerConfigError", `writing the hosts file of container "web": disk full`)
	})
}
