// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// withHostsFile adds the pod's hosts file to the mounts of a container that has none of its own. The file is written anew at
// each start, as the kubelet does: what containers wrote into it is gone then.
func (p *pass) withHostsFile(ctx context.Context, c *v1.Container, mounts []*runtimeapi.Mount) ([]*runtimeapi.Mount, error) {
	if !cri.NeedsHostsFile(p.pod, c, p.ips) {
		return mounts, nil
	}
	content := cri.HostsFile(cri.HostsInput{Pod: p.pod, ClusterDomain: p.opts.ClusterDomain, IPs: p.ips, HostFile: p.facts.Hosts})
	file, err := p.opts.Files.EnsureHostsFile(ctx, p.pod.UID, []byte(content))
	if err != nil {
		return nil, fmt.Errorf("writing the hosts file of container %q: %w", c.Name, err)
	}
	return append(mounts, &runtimeapi.Mount{HostPath: file, ContainerPath: cri.HostsPath, SelinuxRelabel: true}), nil
}
