// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"log/slog"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// Policy judges what a node asks of the machine. A refusal is PermissionDenied and says what is in the way.
type Policy interface {
	Sandbox(cfg *runtimeapi.PodSandboxConfig) error
	Container(cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) error
	// Volume returns the volume as it was judged.
	Volume(v host.Volume) (host.Volume, error)
}

// guard asks the policy, if there is one, and tells the host's owner of refusals.
type guard struct {
	policy Policy
	logger *slog.Logger
}

func (g guard) sandbox(cfg *runtimeapi.PodSandboxConfig) error {
	if g.policy == nil {
		return nil
	}
	return g.told(g.policy.Sandbox(cfg), "sandbox", cfg.GetMetadata().GetUid())
}

func (g guard) container(cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) error {
	if g.policy == nil {
		return nil
	}
	return g.told(g.policy.Container(cfg, sandbox), "container "+cfg.GetMetadata().GetName(), sandbox.GetMetadata().GetUid())
}

func (g guard) volume(uid string, v host.Volume) (host.Volume, error) {
	if g.policy == nil {
		return v, nil
	}
	judged, err := g.policy.Volume(v)
	return judged, g.told(err, "volume "+v.Name, uid)
}

// checkpoint judges the calls that copy a container to a file anywhere on the machine, and back. Nodes do not need them.
func (g guard) checkpoint() error {
	if g.policy == nil {
		return nil
	}
	return g.told(fmt.Errorf("the policy of the host does not allow checkpoints: %w", errdefs.ErrPermissionDenied), "checkpoint", "")
}

func (g guard) told(err error, what, uid string) error {
	if err != nil {
		g.logger.Warn("refused what a pod asks of this machine", "what", what, "uid", uid, "error", err)
	}
	return toStatus(err)
}
