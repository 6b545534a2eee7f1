// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podenv"
)

// subPath returns the part of the volume that a mount is about, "" for the whole. Messages are the kubelet's.
func subPath(mount *v1.VolumeMount, env []*runtimeapi.KeyValue) (string, error) {
	part := mount.SubPath
	if mount.SubPathExpr != "" {
		var err error
		if part, err = expand(mount.SubPathExpr, env); err != nil {
			return "", err
		}
	}
	switch {
	case path.IsAbs(part):
		return "", fmt.Errorf("error SubPath `%s` must not be an absolute path", part)
	case slices.Contains(strings.Split(part, "/"), ".."):
		return "", fmt.Errorf("unable to provision SubPath `%s`: must not contain '..'", part)
	default:
		return part, nil
	}
}

// expand replaces $(NAME) references, all of which must have a value.
func expand(expr string, env []*runtimeapi.KeyValue) (string, error) {
	values := make(map[string]string, len(env))
	for _, e := range env {
		values[e.GetKey()] = string(e.GetValue())
	}
	var missing []string
	for _, name := range podenv.References(expr) {
		if values[name] == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		return "", fmt.Errorf("missing value for %s", strings.Join(slices.Compact(missing), ", "))
	}
	return podenv.Expand(expr, values), nil
}

// part asks the host for a part of a volume. What the host says of its files is nothing for the user of a pod.
func (m *Manager) part(ctx context.Context, uid types.UID, v *v1.Volume, want host.SubPath) (string, error) {
	want.Volume, want.Kind = v.Name, kindOf(v)
	if want.Kind != "" {
		want.HostPath = ""
	}
	hostPath, err := m.opts.Files.EnsureSubPath(ctx, uid, want)
	switch {
	case err == nil:
		return hostPath, nil
	case ctx.Err() != nil || cri.OutcomeUnknown(err):
		return "", fmt.Errorf("preparing subPath for volumeMount %q of container %q: %w", v.Name, want.Container, err)
	case errdefs.IsAborted(err):
		return "", fmt.Errorf("failed to create subPath directory for volumeMount %q of container %q", v.Name, want.Container)
	default:
		return "", fmt.Errorf("failed to prepare subPath for volumeMount %q of container %q", v.Name, want.Container)
	}
}
