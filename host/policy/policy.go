// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"sigs.k8s.io/yaml"
)

// APIVersion and Kind are those of a policy's file.
const (
	APIVersion = "tombolo.dev/v1alpha1"
	Kind       = "HostPolicy"
)

// Any stands for all values in a list of capabilities.
const Any = "*"

// Namespaces of the host that pods can ask to share.
const (
	NamespaceNetwork = "network"
	NamespacePID     = "pid"
	NamespaceIPC     = "ipc"
)

// maxFileBytes bounds what is read of a policy's file.
const maxFileBytes = 1 << 20

// file is the file of a policy. What it does not allow is refused.
type file struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Allow      allow  `json:"allow"`
}

// allow is what pods may do.
type allow struct {
	// Privileged allows privileged containers and everything that amounts to them: mounts that show up on the host, and all of
	// /proc and /sys.
	Privileged bool `json:"privileged"`
	// HostNamespaces are those that pods may share: network, pid and ipc.
	HostNamespaces []string `json:"hostNamespaces"`
	// HostPaths are directories of which pods may mount any part.
	HostPaths []hostPath `json:"hostPaths"`
	// Capabilities are those that containers may add, without CAP_; "*" is all.
	Capabilities []string `json:"capabilities"`
	// Devices are device files, or directories of them, that containers may get.
	Devices []string `json:"devices"`
}

// hostPath is a directory of the host.
type hostPath struct {
	Path string `json:"path"`
	// ReadOnly allows it to be mounted for reading only.
	ReadOnly bool `json:"readOnly"`
}

// Dirs are the host's own directories, which need no permission. Both are absolute.
type Dirs struct {
	// Pods holds the directories of pods.
	Pods string
	// Logs holds their logs.
	Logs string
}

// Policy judges requests. The zero value allows nothing.
type Policy struct {
	allow allow
	dirs  Dirs
}

// Load reads a policy. The error names every problem with its field and what to do; it is InvalidArgument.
func Load(path string, dirs Dirs) (*Policy, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("reading the policy: %s has %d bytes, at most %d are read: %w", path, info.Size(), maxFileBytes, errdefs.ErrInvalidArgument)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	p, err := Parse(data, dirs)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	return p, nil
}

// Parse is Load for what a file contains. An unknown field is an error: a permission that is written wrong must not look as
// if it were given, nor a refusal as if it held.
func Parse(data []byte, dirs Dirs) (*Policy, error) {
	var f file
	if err := yaml.UnmarshalStrict(data, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", err, errdefs.ErrInvalidArgument)
	}
	if problems := f.problems(); len(problems) > 0 {
		return nil, fmt.Errorf("%w: %w", errors.Join(problems...), errdefs.ErrInvalidArgument)
	}
	p := &Policy{allow: f.Allow, dirs: dirs}
	for i, name := range p.allow.Capabilities {
		p.allow.Capabilities[i] = capability(name)
	}
	return p, nil
}

func (f *file) problems() []error {
	var problems []error
	if f.APIVersion != APIVersion {
		problems = append(problems, fmt.Errorf("apiVersion %q: write %s", f.APIVersion, APIVersion))
	}
	if f.Kind != Kind {
		problems = append(problems, fmt.Errorf("kind %q: write %s", f.Kind, Kind))
	}
	known := []string{NamespaceNetwork, NamespacePID, NamespaceIPC}
	for i, name := range f.Allow.HostNamespaces {
		if !slices.Contains(known, name) {
			problems = append(problems, fmt.Errorf("allow.hostNamespaces[%d] %q: write %s", i, name, strings.Join(known, ", ")))
		}
	}
	for i, dir := range f.Allow.HostPaths {
		if !cleanAbsolute(dir.Path) {
			problems = append(problems, fmt.Errorf("allow.hostPaths[%d].path %q: write an absolute path in its shortest form", i, dir.Path))
		}
	}
	for i, dir := range f.Allow.Devices {
		if !cleanAbsolute(dir) {
			problems = append(problems, fmt.Errorf("allow.devices[%d] %q: write an absolute path in its shortest form", i, dir))
		}
	}
	for i, name := range f.Allow.Capabilities {
		if name != Any && !capabilityName(name) {
			problems = append(problems, fmt.Errorf("allow.capabilities[%d] %q: write a name such as NET_ADMIN, or %q for all", i, name, Any))
		}
	}
	return problems
}

func cleanAbsolute(path string) bool { return filepath.IsAbs(path) && filepath.Clean(path) == path }

func capabilityName(name string) bool {
	return name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
}

// capability is the name of a capability in one form.
func capability(name string) string { return strings.TrimPrefix(strings.ToUpper(name), "CAP_") }
