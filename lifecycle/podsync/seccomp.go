// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// profilesVolume is the volume that holds the profiles that were brought to the host for a pod: a name that none of its own
// volumes has, or what the pod writes into that would be its profile.
func profilesVolume(pod *v1.Pod) string {
	name := "tombolo-seccomp"
	for slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == name }) {
		name = "x" + name
	}
	return name
}

// profileMode is that of a profile on the host: the runtime reads it as root.
const profileMode = 0o600

// Profiles has seccomp profiles beside the node.
type Profiles interface {
	// Seccomp returns a profile by its path, NotFound if there is none.
	Seccomp(name string) ([]byte, error)
}

// FileSets writes files of pods on the host.
type FileSets interface {
	// WriteFiles is host.Volumes's. It is idempotent.
	WriteFiles(ctx context.Context, uid types.UID, set host.FileSet) (path string, err error)
}

// seccompDir returns the directory on the host to which the container's localhost profile is relative: the host's own, unless
// the profile is beside the node. Then all that the pod names and the node has are brought to the host.
func (p *pass) seccompDir(ctx context.Context, c *v1.Container) (string, error) {
	own := path.Join(p.facts.RootDir, "seccomp")
	if p.opts.Profiles == nil {
		return own, nil
	}
	files, err := p.profiles()
	if err != nil {
		return "", fmt.Errorf("reading the seccomp profile of container %q: %w", c.Name, err)
	}
	wanted := cri.LocalhostSeccomp(p.pod, c)
	if !slices.ContainsFunc(files, func(f host.File) bool { return f.Path == wanted }) {
		return own, nil
	}
	dir, err := p.opts.FileSets.WriteFiles(ctx, p.pod.UID, host.FileSet{Volume: profilesVolume(p.pod), Kind: host.ConfigMapVolume, Files: files})
	if err != nil {
		return "", fmt.Errorf("bringing the seccomp profile of container %q to the host: %w", c.Name, err)
	}
	return dir, nil
}

// profiles are those that the pod names and the node has.
func (p *pass) profiles() ([]host.File, error) {
	var files []host.File
	for _, c := range podrules.Containers(p.pod) {
		name := cri.LocalhostSeccomp(p.pod, c)
		if name == "" || slices.ContainsFunc(files, func(f host.File) bool { return f.Path == name }) {
			continue
		}
		data, err := p.opts.Profiles.Seccomp(name)
		switch {
		case errdefs.IsNotFound(err):
		case err != nil:
			return nil, err
		default:
			files = append(files, host.File{Path: name, Data: data, Mode: profileMode})
		}
	}
	return files, nil
}
