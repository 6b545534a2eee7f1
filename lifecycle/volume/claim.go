// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"
	storagehelper "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// Claims reads what volumes with claims refer to, anew with each call. The errors are those of Objects.
type Claims interface {
	// Claim returns a PersistentVolumeClaim of the pod's namespace.
	Claim(ctx context.Context, pod *v1.Pod, name string) (*v1.PersistentVolumeClaim, error)
	// PersistentVolume returns a PersistentVolume that a claim of the pod is bound to.
	PersistentVolume(ctx context.Context, pod *v1.Pod, name string) (*v1.PersistentVolume, error)
}

// claimOf returns the name of the claim that a volume is made of, "" if it is made of none.
func claimOf(pod *v1.Pod, v *v1.Volume) string {
	switch {
	case v.PersistentVolumeClaim != nil:
		return v.PersistentVolumeClaim.ClaimName
	case v.Ephemeral != nil:
		return ephemeral.VolumeClaimName(pod, v)
	default:
		return ""
	}
}

// claimed makes a volume ready that a claim stands for. What is wrong with the claim or what it is bound to is an *unprocessedError,
// with the kubelet's text.
func (s *setUp) claimed(ctx context.Context, v *v1.Volume) (place, error) {
	pv, err := s.bound(ctx, v)
	if err != nil {
		if ctx.Err() != nil {
			return place{}, ctx.Err()
		}
		return place{}, &unprocessedError{err.Error()}
	}
	block := ptr.Deref(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == v1.PersistentVolumeBlock
	labels := s.opts.NodeLabels()
	if labels == nil {
		return place{}, fmt.Errorf("the labels of the node are not known yet: %w", errdefs.ErrUnavailable)
	}
	// The scheduler looks at that before, unless the pod's author chose the node.
	if err := storagehelper.CheckNodeAffinity(pv, labels); err != nil {
		return place{}, &operationError{operation: operationFor(block, "NodeAffinity check"), volume: pv.Name, block: block, err: err}
	}
	if pv.Spec.HostPath != nil && !block && len(mountOptions(pv)) > 0 {
		return place{}, &operationError{operation: operationFor(block, "MountOptionSupport check"), volume: pv.Name, block: block,
			err: errors.New("mount options are not supported for this volume type")}
	}
	readOnly := v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
	for _, plugin := range s.plugins {
		if !plugin.Supports(pv) {
			continue
		}
		path, err := plugin.SetUp(ctx, s.pod, v.Name, pv, readOnly)
		if err != nil {
			return place{}, &operationError{operation: operationFor(block, "SetUp"), volume: pv.Name, block: block, err: err}
		}
		// The kubelet labels what it may change. What a hostPath names is the host's own.
		label := pv.Spec.Local != nil && !readOnly && !block
		return place{path: path, readOnly: readOnly, block: block, label: label}, nil
	}
	return place{}, &operationError{operation: operationFor(block, "SetUp"), volume: pv.Name, block: block, err: fmt.Errorf(
		"PersistentVolumes of type %s are not mounted by this node; use one of type local or hostPath, with the file system mounted on the host",
		sourceName(pv))}
}

// operationFor is what the kubelet calls an operation in its events.
func operationFor(block bool, what string) string {
	if block {
		return "MapVolume." + what
	}
	return "MountVolume." + what
}

// bound returns the PersistentVolume that the claim of a volume is bound to, if the volume can be used in the way that the pod wants.
func (s *setUp) bound(ctx context.Context, v *v1.Volume) (*v1.PersistentVolume, error) {
	name := claimOf(s.pod, v)
	claim, err := s.opts.Claims.Claim(ctx, s.pod, name)
	if err == nil {
		err = usable(claim, s.pod)
	} else {
		err = fmt.Errorf("failed to fetch PVC from API server: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("error processing PVC %s/%s: %w", s.pod.Namespace, name, err)
	}
	if v.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(s.pod, claim); err != nil {
			return nil, err
		}
	}
	pv, err := s.opts.Claims.PersistentVolume(ctx, s.pod, claim.Spec.VolumeName)
	if err != nil {
		err = fmt.Errorf("failed to fetch PV %s from API server: %w", claim.Spec.VolumeName, err)
	} else {
		err = boundTo(pv, claim)
	}
	if err != nil {
		return nil, fmt.Errorf("error processing PVC %s/%s: %w", s.pod.Namespace, name, err)
	}
	return pv, checkMode(&s.pod.Spec, v.Name, pv)
}

// usable says whether a pod may have the claim. One that is being deleted stays as long as pods have it, which is for those only that
// have begun to run.
func usable(claim *v1.PersistentVolumeClaim, pod *v1.Pod) error {
	switch {
	case claim.DeletionTimestamp != nil && !begun(pod):
		return errors.New("PVC is being deleted")
	case claim.Status.Phase != v1.ClaimBound:
		return errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return errors.New("PVC has empty pvc.Spec.VolumeName")
	default:
		return nil
	}
}

// begun says whether a container of the pod was ever started, as far as the API knows.
func begun(pod *v1.Pod) bool {
	started := func(s v1.ContainerStatus) bool {
		return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, started) || slices.ContainsFunc(pod.Status.ContainerStatuses, started)
}

// boundTo says whether a PersistentVolume is the claim's, too.
func boundTo(pv *v1.PersistentVolume, claim *v1.PersistentVolumeClaim) error {
	switch ref := pv.Spec.ClaimRef; {
	case ref == nil:
		return fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", pv.Name)
	case ref.UID != claim.UID:
		return fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", pv.Name, ref.UID, claim.UID)
	default:
		return nil
	}
}

// checkMode says whether containers use a volume as what it is, a file system or a disk.
func checkMode(spec *v1.PodSpec, name string, pv *v1.PersistentVolume) error {
	mode := ptr.Deref(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem)
	mounted, mapped := usesOf(spec, name)
	switch {
	case mounted && mode != v1.PersistentVolumeFilesystem:
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", name, mode)
	case mapped && mode != v1.PersistentVolumeBlock:
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeDevices", name, mode)
	default:
		return nil
	}
}
