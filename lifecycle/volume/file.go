// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podenv"
)

var _ podenv.Files = (*Manager)(nil)

// ReadFile returns the content of a file that containers wrote to a volume of the pod. InvalidArgument says that the pod has no such
// volume whose files can be read.
func (m *Manager) ReadFile(ctx context.Context, pod *v1.Pod, volume, path string) ([]byte, error) {
	at := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == volume })
	if at < 0 || kindOf(&pod.Spec.Volumes[at]) == "" {
		return nil, fmt.Errorf("the pod has no volume %q with files to read: %w", volume, errdefs.ErrInvalidArgument)
	}
	return m.opts.Files.ReadVolumeFile(ctx, pod.UID, host.VolumeFile{Volume: volume, Kind: kindOf(&pod.Spec.Volumes[at]), Path: path})
}
