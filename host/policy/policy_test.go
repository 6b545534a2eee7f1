// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

const header = "apiVersion: tombolo.dev/v1alpha1\nkind: HostPolicy\n"

// machine is a host with directories of its own, one that is shared and one that is secret.
type machine struct{ root, pods, logs, shared, secret string }

func newMachine(t *testing.T) machine {
	t.Helper()
	root := t.TempDir()
	m := machine{root, filepath.Join(root, "pods"), filepath.Join(root, "logs"), filepath.Join(root, "shared"), filepath.Join(root, "secret")}
	for _, dir := range []string{m.pods, m.logs, m.shared, m.secret} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func (m machine) policy(t *testing.T, allow string) *Policy {
	t.Helper()
	p, err := Parse([]byte(header+allow), Dirs{Pods: m.pods, Logs: m.logs})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func requireRefused(t *testing.T, err error, why ...string) {
	t.Helper()
	if !errdefs.IsPermissionDenied(err) {
		t.Errorf("got %v, want a refusal", err)
		return
	}
	for _, part := range why {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not name %q", err, part)
		}
	}
}

func requireAllowed(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("refused: %v", err)
	}
}

// plain is a container that asks for nothing.
func plain(change ...func(*runtimeapi.ContainerConfig)) *runtimeapi.ContainerConfig {
	cfg := &runtimeapi.ContainerConfig{Linux: &runtimeapi.LinuxContainerConfig{SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
		MaskedPaths: []string{"/proc/kcore"}, ReadonlyPaths: []string{"/proc/sys"},
	}}}
	for _, c := range change {
		c(cfg)
	}
	return cfg
}

func create(p *Policy, cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) error {
	_, err := p.Container(cfg, sandbox)
	return err
}

// TestContainersAreJudgedAtPathsWithoutLinks: what the runtime is told is what was judged, whatever the links become meanwhile. What the
// host made for pods keeps its name, but only if it is called so.
func TestContainersAreJudgedAtPathsWithoutLinks(t *testing.T) {
	m := newMachine(t)
	p := m.policy(t, "allow: {hostPaths: [{path: "+m.shared+"}], devices: ["+m.shared+"]}")
	link, toPods := filepath.Join(m.root, "link"), filepath.Join(m.shared, "pods")
	for name, target := range map[string]string{link: m.shared, toPods: m.pods} {
		if err := os.Symlink(target, name); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(m.pods, "u", "etc-hosts")
	given := plain(func(c *runtimeapi.ContainerConfig) {
		c.Mounts = []*runtimeapi.Mount{{HostPath: link + "/a/b"}, {HostPath: own}, {Image: &runtimeapi.ImageSpec{Image: "x"}}}
		c.Devices = []*runtimeapi.Device{{HostPath: link + "/d"}}
	})
	judged, err := p.Container(given, nil)
	requireAllowed(t, err)
	want := []string{filepath.Join(m.shared, "a/b"), own, "", filepath.Join(m.shared, "d")}
	got := []string{judged.GetMounts()[0].GetHostPath(), judged.GetMounts()[1].GetHostPath(), judged.GetMounts()[2].GetHostPath(), judged.GetDevices()[0].GetHostPath()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if given.GetMounts()[0].GetHostPath() != link+"/a/b" {
		t.Error("the request was changed")
	}
	requireRefused(t, create(p, plain(func(c *runtimeapi.ContainerConfig) {
		c.Mounts = []*runtimeapi.Mount{{HostPath: filepath.Join(toPods, "other", "volumes", "plugin", "secret"), Readonly: true}}
	}), nil), toPods)
}

func judge(p *Policy, v host.Volume) error {
	_, err := p.Volume(v)
	return err
}

func TestVolumesAreJudgedAtPathsWithoutLinks(t *testing.T) {
	m := newMachine(t)
	p := m.policy(t, "allow: {hostPaths: [{path: "+m.shared+"}]}")
	link := filepath.Join(m.root, "link")
	if err := os.Symlink(m.shared, link); err != nil {
		t.Fatal(err)
	}
	got, err := p.Volume(host.Volume{Name: "v", HostPath: filepath.Join(link, "new"), HostPathType: "DirectoryOrCreate"})
	if err != nil || got.HostPath != filepath.Join(m.shared, "new") || !got.NoLinks {
		t.Errorf("got %+v, %v; want the path behind the link", got, err)
	}
	asked := host.LocalVolume{Path: link}
	got, err = p.Volume(host.Volume{Name: "v", Local: &asked})
	if err != nil || got.Local.Path != m.shared || !got.NoLinks || asked.Path != link {
		t.Errorf("got %+v of %+v, %v; want the path behind the link", got.Local, asked, err)
	}
}

func TestNothingSpecialIsAlwaysAllowed(t *testing.T) {
	m := newMachine(t)
	p := m.policy(t, "")
	requireAllowed(t, p.Sandbox(&runtimeapi.PodSandboxConfig{LogDirectory: filepath.Join(m.logs, "ns_p_u")}))
	sandbox := &runtimeapi.PodSandboxConfig{LogDirectory: filepath.Join(m.logs, "ns_p_u")}
	requireAllowed(t, create(p, plain(func(c *runtimeapi.ContainerConfig) {
		c.LogPath = "main/0.log"
		c.Mounts = []*runtimeapi.Mount{
			{ContainerPath: "/data", HostPath: filepath.Join(m.pods, "u", "volumes", "data")},
			{ContainerPath: "/image", Image: &runtimeapi.ImageSpec{Image: "x"}},
		}
	}), sandbox))
	requireAllowed(t, judge(p, host.Volume{Name: "data", EmptyDir: true}))
}

func TestSandboxesThatAreRefused(t *testing.T) {
	m := newMachine(t)
	namespaces := func(o *runtimeapi.NamespaceOption) *runtimeapi.PodSandboxConfig {
		return &runtimeapi.PodSandboxConfig{Linux: &runtimeapi.LinuxPodSandboxConfig{SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{NamespaceOptions: o}}}
	}
	node := runtimeapi.NamespaceMode_NODE
	for name, tt := range map[string]struct {
		cfg   *runtimeapi.PodSandboxConfig
		allow string
	}{
		"network namespace": {namespaces(&runtimeapi.NamespaceOption{Network: node}), "allow: {hostNamespaces: [network]}"},
		"pid namespace":     {namespaces(&runtimeapi.NamespaceOption{Pid: node}), "allow: {hostNamespaces: [ipc, pid]}"},
		"ipc namespace":     {namespaces(&runtimeapi.NamespaceOption{Ipc: node}), "allow: {hostNamespaces: [ipc]}"},
		"privileged": {&runtimeapi.PodSandboxConfig{Linux: &runtimeapi.LinuxPodSandboxConfig{
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{Privileged: true}}}, "allow: {privileged: true}"},
		"logs at": {&runtimeapi.PodSandboxConfig{LogDirectory: m.secret}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefused(t, m.policy(t, "").Sandbox(tt.cfg), name)
			if tt.allow != "" {
				requireAllowed(t, m.policy(t, tt.allow).Sandbox(tt.cfg))
			}
		})
	}
}

func TestContainersThatAreRefused(t *testing.T) {
	m := newMachine(t)
	device := filepath.Join(m.shared, "device")
	for name, tt := range map[string]struct {
		change func(*runtimeapi.ContainerConfig)
		allow  string
	}{
		"privileged":   {func(c *runtimeapi.ContainerConfig) { c.Linux.SecurityContext.Privileged = true }, "allow: {privileged: true}"},
		"procMount":    {func(c *runtimeapi.ContainerConfig) { c.Linux.SecurityContext.MaskedPaths = nil }, "allow: {privileged: true}"},
		"all of /proc": {func(c *runtimeapi.ContainerConfig) { c.Linux = nil }, ""},
		"show up on the host": {func(c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/d", HostPath: m.pods, Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL}}
		}, "allow: {privileged: true}"},
		"pid namespace": {func(c *runtimeapi.ContainerConfig) {
			c.Linux.SecurityContext.NamespaceOptions = &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_NODE}
		}, "allow: {hostNamespaces: [pid]}"},
		"capability CAP_NET_ADMIN": {func(c *runtimeapi.ContainerConfig) {
			c.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{AddCapabilities: []string{"CAP_NET_ADMIN"}}
		}, "allow: {capabilities: [NET_ADMIN]}"},
		"capability ALL": {func(c *runtimeapi.ContainerConfig) {
			c.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{AddCapabilities: []string{"ALL"}}
		}, `allow: {capabilities: ["*"]}`},
		"capability SYS_TIME": {func(c *runtimeapi.ContainerConfig) {
			c.Linux.SecurityContext.Capabilities = &runtimeapi.Capability{AddAmbientCapabilities: []string{"SYS_TIME"}}
		}, "allow: {capabilities: [SYS_TIME]}"},
		"device " + device:  {func(c *runtimeapi.ContainerConfig) { c.Devices = []*runtimeapi.Device{{HostPath: device}} }, "allow: {devices: [" + m.shared + "]}"},
		"device vendor/x=1": {func(c *runtimeapi.ContainerConfig) { c.CDIDevices = []*runtimeapi.CDIDevice{{Name: "vendor/x=1"}} }, ""},
		"by annotation cdi.k8s.io/x": {func(c *runtimeapi.ContainerConfig) {
			c.Annotations = map[string]string{"cdi.k8s.io/x": "vendor/x=1"}
		}, ""},
		"logs at": {func(c *runtimeapi.ContainerConfig) { c.LogPath = "../../secret/0.log" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			sandbox := &runtimeapi.PodSandboxConfig{LogDirectory: filepath.Join(m.logs, "p")}
			requireRefused(t, create(m.policy(t, ""), plain(tt.change), sandbox), name)
			if tt.allow != "" {
				requireAllowed(t, create(m.policy(t, tt.allow), plain(tt.change), sandbox))
			}
		})
	}
}

func TestRelabellingIsWriting(t *testing.T) {
	m := newMachine(t)
	mount := func(relabel bool) *runtimeapi.ContainerConfig {
		return plain(func(c *runtimeapi.ContainerConfig) {
			c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/d", HostPath: m.shared, Readonly: true, SelinuxRelabel: relabel}}
		})
	}
	p := m.policy(t, "allow: {hostPaths: [{path: "+m.shared+", readOnly: true}]}")
	requireAllowed(t, create(p, mount(false), nil))
	requireRefused(t, create(p, mount(true), nil), "for writing")
}

func TestLocalVolumes(t *testing.T) {
	m := newMachine(t)
	group := int64(7)
	local := func(v host.LocalVolume) host.Volume {
		v.Path = m.shared
		return host.Volume{Name: "v", Local: &v}
	}
	readOnly := m.policy(t, "allow: {hostPaths: [{path: "+m.shared+", readOnly: true}]}")
	requireAllowed(t, judge(readOnly, local(host.LocalVolume{})))
	requireRefused(t, judge(readOnly, local(host.LocalVolume{FSGroup: &group})), "for writing")
	requireRefused(t, judge(readOnly, local(host.LocalVolume{MountOptions: []string{"noexec"}})), "for writing")
	requireRefused(t, judge(readOnly, local(host.LocalVolume{Block: true})), "device "+m.shared)
	requireAllowed(t, judge(m.policy(t, "allow: {devices: ["+m.shared+"]}"), local(host.LocalVolume{Block: true})))
}

func TestHostPaths(t *testing.T) {
	m := newMachine(t)
	link := func(target, name string) string {
		t.Helper()
		path := filepath.Join(m.root, name)
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	into, dangling := link(m.secret, "shared/link"), link(filepath.Join(m.secret, "new"), "shared/dangling")
	alias := link(m.shared, "alias")
	readWrite, readOnly := "allow: {hostPaths: [{path: "+m.shared+"}]}", "allow: {hostPaths: [{path: "+m.shared+", readOnly: true}]}"
	for name, tt := range map[string]struct {
		allow, path   string
		read, written bool
	}{
		"nothing is allowed":             {"", m.shared, false, false},
		"the directory":                  {readWrite, m.shared, true, true},
		"below it":                       {readWrite, m.shared + "/a/b", true, true},
		"beside it":                      {readWrite, m.shared + "-2", false, false},
		"above it":                       {readWrite, m.root, false, false},
		"the parent of it":               {readWrite, m.shared + "/..", false, false},
		"through it to another":          {readWrite, m.shared + "/../secret", false, false},
		"a link in it to another":        {readWrite, into, false, false},
		"below a link in it to another":  {readWrite, into + "/x", false, false},
		"a link in it to nothing so far": {readWrite, dangling, false, false},
		"a link to it":                   {readWrite, alias, true, true},
		"for reading":                    {readOnly, m.shared, true, false},
		"through an allowed link":        {"allow: {hostPaths: [{path: " + alias + "}]}", m.shared + "/x", true, true},
		"everything":                     {"allow: {hostPaths: [{path: /}]}", m.secret, true, true},
		"no absolute path":               {"allow: {hostPaths: [{path: /}]}", "secret", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := m.policy(t, tt.allow)
			for readOnly, allowed := range map[bool]bool{true: tt.read, false: tt.written} {
				err := create(p, plain(func(c *runtimeapi.ContainerConfig) {
					c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/d", HostPath: tt.path, Readonly: readOnly}}
				}), nil)
				if allowed {
					requireAllowed(t, err)
				} else {
					requireRefused(t, err, tt.path)
				}
				kind := "DirectoryOrCreate"
				if readOnly {
					kind = "Directory"
				}
				if err := judge(p, host.Volume{Name: "v", HostPath: tt.path, HostPathType: kind}); (err == nil) != allowed {
					t.Errorf("%s volume: %v", kind, err)
				}
			}
		})
	}
}

func TestBadPoliciesAreRefusedWithEveryFieldNamed(t *testing.T) {
	for text, parts := range map[string][]string{
		"": {"apiVersion", "kind"},
		"apiVersion: v1\nkind: HostPolicy\nallow: {hostNamespaces: [net], hostPaths: [{path: data}, {path: /a/../b}], capabilities: [net_admin], devices: [null]}": {
			`apiVersion "v1"`, `allow.hostNamespaces[0] "net"`, `allow.hostPaths[0].path "data"`, `allow.hostPaths[1].path`, `allow.capabilities[0]`, `allow.devices[0]`},
		header + "allow: {privilege: true}":                     {"privilege"},
		header + "allow: {privileged: maybe}":                   {"privileged"},
		header + "allow: {privileged: true, privileged: false}": {"privileged"},
		"{": {""},
	} {
		_, err := Parse([]byte(text), Dirs{})
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", text, err)
			continue
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v does not name %s", text, err, part)
			}
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if _, err := Load(path, Dirs{}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("missing: %v", err)
	}
	for content, bad := range map[string]bool{header: false, "x": true, strings.Repeat("#", maxFileBytes+1): true} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, Dirs{}); (err != nil) != bad || bad && !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: %v", content, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(header + "allow: {privileged: true, hostPaths: [{path: /data, readOnly: true}]}"))
	f.Add([]byte(header + `allow: {capabilities: ["*"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data, Dirs{Pods: "/p", Logs: "/l"})
		if err != nil {
			return
		}
		for _, dir := range p.allow.HostPaths {
			if !filepath.IsAbs(dir.Path) {
				t.Errorf("host path %q", dir.Path)
			}
		}
	})
}
