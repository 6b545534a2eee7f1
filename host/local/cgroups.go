// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/local/podcgroup"
)

// CgroupManager makes and removes control groups. Calls for one pod do not overlap.
type CgroupManager interface {
	Ensure(pod host.PodCgroup) (parent string, err error)
	SetTiers(cpus int, burstableShares int64) error
	// Remove also kills what is left in the pod's group. Missing is success.
	Remove(uid types.UID) error
}

// podCgroups are the control groups of pods. Which way they are made is known when the runtime has told its driver.
type podCgroups struct {
	open func(driver string) CgroupManager

	mu      sync.Mutex
	manager CgroupManager
}

func openCgroups(driver string) CgroupManager { return podcgroup.New(driver) }

// cgroups returns the manager for the driver that the runtime uses. It is NotImplemented if the runtime does not tell: a group
// of the wrong driver would keep containers from starting.
func (h *Host) cgroups(ctx context.Context) (CgroupManager, error) {
	h.podCgroups.mu.Lock()
	defer h.podCgroups.mu.Unlock()
	if h.podCgroups.manager == nil {
		driver, err := h.cgroupDriver(ctx)
		if err != nil {
			return nil, err
		}
		h.podCgroups.manager = h.podCgroups.open(driver)
	}
	return h.podCgroups.manager, nil
}

// EnsurePodCgroup makes the control group of a pod. It is removed with the pod's directory.
func (h *Host) EnsurePodCgroup(ctx context.Context, pod host.PodCgroup) (string, error) {
	if err := checkUID(pod.UID); err != nil {
		return "", err
	}
	switch pod.Class {
	case v1.PodQOSGuaranteed, v1.PodQOSBurstable, v1.PodQOSBestEffort:
	default:
		return "", fmt.Errorf("%q is no quality of service class: %w", pod.Class, errdefs.ErrInvalidArgument)
	}
	manager, err := h.cgroups(ctx)
	if err != nil {
		return "", err
	}
	defer h.lockPod(pod.UID)()
	// The directory is what reminds of the group.
	if err := ensureDir(h.root, podDir(pod.UID), privateDirMode); err != nil {
		return "", err
	}
	return manager.Ensure(pod)
}

// SetCgroupTiers sets the weights of the classes.
func (h *Host) SetCgroupTiers(ctx context.Context, burstableShares int64) error {
	manager, err := h.cgroups(ctx)
	if err != nil {
		return err
	}
	return manager.SetTiers(h.cpus(), burstableShares)
}

// removeCgroup removes the control group of a pod. Its lock is held.
func (h *Host) removeCgroup(ctx context.Context, uid types.UID) error {
	manager, err := h.cgroups(ctx)
	switch {
	case errdefs.IsNotImplemented(err):
		return nil
	case err != nil:
		return err
	}
	return manager.Remove(uid)
}
