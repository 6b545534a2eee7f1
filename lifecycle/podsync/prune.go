// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// prune removes the records of earlier runs of init containers, with their logs. What cannot be removed is left for the
// next sync or the garbage collector: it stands in nobody's way.
func (p *pass) prune(ctx context.Context) error {
	if !p.actions.starts() {
		return nil
	}
	for _, record := range prunable(p.pod, p.status) {
		if err := p.remove(ctx, record); err != nil {
			p.log.Warn("removing an old init container", "pod", p.pod.Namespace+"/"+p.pod.Name, "uid", p.pod.UID,
				"container", record.Name, "id", record.ID, "error", err)
			continue
		}
		p.result.Acted = true
	}
	return nil
}

// remove removes an ended container's record and, before it, its logs: without the record nobody would find them.
func (p *pass) remove(ctx context.Context, record *cri.ContainerStatus) error {
	timed, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	if record.LogPath != "" {
		if err := p.opts.Logs.RemoveLogs(timed, record.LogPath); err != nil {
			return fmt.Errorf("removing the logs of container %q: %w", record.ID, err)
		}
	}
	if err := p.opts.Runtime.RemoveContainer(ctx, record.ID); err != nil {
		return fmt.Errorf("removing container %q: %w", record.ID, err)
	}
	return nil
}

// prunable are the ended records of init containers but the newest of each name. What runs, or may run, is not among
// them, and neither is what was never started: it has no logs and may be being started.
func prunable(pod *v1.Pod, status *cri.PodStatus) []*cri.ContainerStatus {
	var out []*cri.ContainerStatus
	for i := range pod.Spec.InitContainers {
		kept := false
		for j := range status.Containers {
			record := &status.Containers[j]
			if record.Name != pod.Spec.InitContainers[i].Name || record.State != cri.ContainerExited {
				continue
			}
			if kept {
				out = append(out, record)
			}
			kept = true
		}
	}
	return out
}
