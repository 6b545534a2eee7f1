// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/link/calmlog"
)

// Policy judges what a node asks of the machine. A refusal is PermissionDenied and says what is in the way.
type Policy interface {
	Sandbox(cfg *runtimeapi.PodSandboxConfig) error
	// Container returns the container as it was judged.
	Container(cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.ContainerConfig, error)
	// Volume returns the volume as it was judged.
	Volume(v host.Volume) (host.Volume, error)
}

// Pins give paths of the machine names that lead to what they led to, whatever pods do to what they were called before.
type Pins interface {
	PinPath(ctx context.Context, uid types.UID, path host.PinnedPath) (string, error)
}

// guard asks the policy, if there is one, and tells the host's owner of refusals.
type guard struct {
	policy  Policy
	pins    Pins
	refused *calmlog.Log
}

func (g guard) sandbox(cfg *runtimeapi.PodSandboxConfig) error {
	if g.policy == nil {
		return nil
	}
	return g.told(g.policy.Sandbox(cfg), "sandbox", cfg.GetMetadata().GetUid())
}

// container returns the request as it was judged.
func (g guard) container(r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerRequest, error) {
	if g.policy == nil {
		return r, nil
	}
	judged, err := g.policy.Container(r.GetConfig(), r.GetSandboxConfig())
	if err != nil {
		return nil, g.told(err, "container "+r.GetConfig().GetMetadata().GetName(), r.GetSandboxConfig().GetMetadata().GetUid())
	}
	return &runtimeapi.CreateContainerRequest{PodSandboxId: r.GetPodSandboxId(), Config: judged, SandboxConfig: r.GetSandboxConfig()}, nil
}

// pin has what was judged mounted where it stays what it is, and returns the request with those paths. It changes the given one. What
// shall show up on the host is only for who may do everything, and has to stay where it is.
func (g guard) pin(ctx context.Context, judged *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerRequest, error) {
	if g.policy == nil {
		return judged, nil
	}
	cfg, uid := judged.GetConfig(), judged.GetSandboxConfig().GetMetadata().GetUid()
	for i, m := range cfg.GetMounts() {
		if m.GetHostPath() == "" || m.GetPropagation() == runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL {
			continue
		}
		path, err := g.pins.PinPath(ctx, types.UID(uid), host.PinnedPath{
			Path: m.GetHostPath(), Make: !m.GetReadonly(), Container: cfg.GetMetadata().GetName(), Mount: i,
		})
		if err != nil {
			return nil, g.told(fmt.Errorf("mounting host path %s: %w", m.GetHostPath(), err), "container "+cfg.GetMetadata().GetName(), uid)
		}
		m.HostPath = path
	}
	return judged, nil
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
		g.refused.Warn("refused what a pod asks of this machine", "what", what, "uid", uid, "error", err)
	}
	return toStatus(err)
}
