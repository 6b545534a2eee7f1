// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// cdiAnnotations is the beginning of annotations through which a runtime gives devices to a container.
const cdiAnnotations = "cdi.k8s.io/"

// Sandbox judges a sandbox that is to be made. A refusal is PermissionDenied and names everything that is in the way.
func (p *Policy) Sandbox(cfg *runtimeapi.PodSandboxConfig) error {
	security := cfg.GetLinux().GetSecurityContext()
	problems := p.namespaces(security.GetNamespaceOptions())
	if security.GetPrivileged() && !p.allow.Privileged {
		problems = append(problems, "privileged pods")
	}
	// The runtime makes log files wherever it is told to, as root.
	if dir := cfg.GetLogDirectory(); dir != "" && !below(resolved(p.dirs.Logs), resolved(dir)) {
		problems = append(problems, "logs at "+dir)
	}
	return refusal(problems)
}

// Container judges a container that is to be made, and returns it with the paths that were judged, through which no link leads. What is
// in the directory of a pod keeps its name. The sandbox is the one the request brings along, which the runtime uses for where logs are.
func (p *Policy) Container(cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.ContainerConfig, error) {
	cfg = proto.CloneOf(cfg)
	security := cfg.GetLinux().GetSecurityContext()
	problems := p.namespaces(security.GetNamespaceOptions())
	if !p.allow.Privileged {
		problems = append(problems, privileges(cfg)...)
	}
	problems = append(problems, p.capabilities(security.GetCapabilities())...)
	problems = append(problems, p.devices(cfg)...)
	for _, mount := range cfg.GetMounts() {
		problems = append(problems, p.mount(mount)...)
	}
	if log := cfg.GetLogPath(); log != "" && !below(resolved(p.dirs.Logs), resolved(filepath.Join(sandbox.GetLogDirectory(), log))) {
		problems = append(problems, "logs at "+filepath.Join(sandbox.GetLogDirectory(), log))
	}
	return cfg, refusal(problems)
}

// Volume judges a volume that is to be made ready, and returns it with the path that was judged, through which no link leads.
func (p *Policy) Volume(v host.Volume) (host.Volume, error) {
	path := v.HostPath
	if v.Local != nil {
		path = v.Local.Path
	}
	if path == "" {
		return v, nil
	}
	path = resolved(path)
	switch {
	case v.Local != nil && v.Local.Block: // and again as a device of a container
		if err := refusal(p.device(v.Local.Path, path)); err != nil {
			return v, err
		}
	case v.Local != nil:
		// One with options is mounted below the directory of the pod, where nothing tells later whether it may be written to.
		readOnly := v.Local.FSGroup == nil && len(v.Local.MountOptions) == 0
		if err := refusal(p.path(v.Local.Path, path, readOnly)); err != nil {
			return v, err
		}
	default:
		makes := strings.HasSuffix(v.HostPathType, "OrCreate")
		if err := refusal(p.path(v.HostPath, path, !makes)); err != nil {
			return v, err
		}
	}
	if v.NoLinks = true; v.Local != nil {
		local := *v.Local
		local.Path = path
		v.Local = &local
	} else {
		v.HostPath = path
	}
	return v, nil
}

func (p *Policy) namespaces(o *runtimeapi.NamespaceOption) []string {
	var problems []string
	for _, ns := range []struct {
		name string
		mode runtimeapi.NamespaceMode
	}{{NamespaceNetwork, o.GetNetwork()}, {NamespacePID, o.GetPid()}, {NamespaceIPC, o.GetIpc()}} {
		if ns.mode == runtimeapi.NamespaceMode_NODE && !slices.Contains(p.allow.HostNamespaces, ns.name) {
			problems = append(problems, "the "+ns.name+" namespace of the host")
		}
	}
	return problems
}

// privileges are what only privileged containers may have.
func privileges(cfg *runtimeapi.ContainerConfig) []string {
	var problems []string
	security := cfg.GetLinux().GetSecurityContext()
	if security.GetPrivileged() {
		problems = append(problems, "privileged containers")
	} else if len(security.GetMaskedPaths()) == 0 || len(security.GetReadonlyPaths()) == 0 {
		problems = append(problems, "all of /proc and /sys (procMount Unmasked)")
	}
	for _, m := range cfg.GetMounts() {
		if m.GetPropagation() == runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL {
			problems = append(problems, "mounts at "+m.GetContainerPath()+" that show up on the host")
		}
	}
	return problems
}

func (p *Policy) capabilities(c *runtimeapi.Capability) []string {
	var problems []string
	for _, name := range slices.Concat(c.GetAddCapabilities(), c.GetAddAmbientCapabilities()) {
		if slices.Contains(p.allow.Capabilities, Any) || slices.Contains(p.allow.Capabilities, capability(name)) {
			continue
		}
		problems = append(problems, "capability "+name)
	}
	return problems
}

// devices judges the devices of a container and gives them their names without links.
func (p *Policy) devices(cfg *runtimeapi.ContainerConfig) []string {
	var problems []string
	for _, d := range cfg.GetDevices() {
		target := resolved(d.GetHostPath())
		problems = append(problems, p.device(d.GetHostPath(), target)...)
		d.HostPath = target
	}
	for _, d := range cfg.GetCDIDevices() {
		problems = append(problems, "device "+d.GetName())
	}
	for key := range cfg.GetAnnotations() {
		if strings.HasPrefix(key, cdiAnnotations) {
			problems = append(problems, "devices by annotation "+key)
		}
	}
	slices.Sort(problems)
	return problems
}

// device judges a device, which is at target if no link is followed.
func (p *Policy) device(path, target string) []string {
	if slices.ContainsFunc(p.allow.Devices, func(dir string) bool { return below(resolved(dir), target) }) {
		return nil
	}
	return []string{"device " + path}
}

// mount judges what a container mounts, and gives it its name without links. Images have no path, and what is in the directory of a pod
// was made by the host. To give files another label is to write to them.
func (p *Policy) mount(m *runtimeapi.Mount) []string {
	path := m.GetHostPath()
	if path == "" {
		return nil
	}
	target := resolved(path)
	if below(p.dirs.Pods, path) && below(resolved(p.dirs.Pods), target) {
		return nil
	}
	m.HostPath = target
	return p.path(path, target, m.GetReadonly() && !m.GetSelinuxRelabel())
}

// path judges a path of the host, which is target if no link is followed.
func (p *Policy) path(path, target string, readOnly bool) []string {
	for _, dir := range p.allow.HostPaths {
		if below(resolved(dir.Path), target) && (readOnly || !dir.ReadOnly) {
			return nil
		}
	}
	if readOnly {
		return []string{"host path " + path}
	}
	return []string{"host path " + path + " for writing"}
}

// below says whether a path is a directory or below it.
func below(dir, path string) bool {
	if dir == "" || path == "" {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// resolved returns the path without symbolic links, as far as it exists; "" if that cannot be known.
func resolved(path string) string {
	if !filepath.IsAbs(path) {
		return ""
	}
	path = filepath.Clean(path)
	rest := ""
	for {
		target, err := filepath.EvalSymlinks(path)
		switch {
		case err == nil:
			return filepath.Join(target, rest)
		case !errors.Is(err, fs.ErrNotExist) || path == "/" || exists(path):
			return "" // also a link to what does not exist yet
		}
		rest = filepath.Join(filepath.Base(path), rest)
		path = filepath.Dir(path)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func refusal(problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("the policy of the host does not allow %s: %w", strings.Join(problems, ", "), errdefs.ErrPermissionDenied)
}
