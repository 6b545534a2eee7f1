// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ContainerInput is what a container's configuration is made of.
type ContainerInput struct {
	Pod       *v1.Pod
	Container *v1.Container
	// RestartCount tells the containers of one name apart; it becomes the CRI's attempt.
	RestartCount int32
	// ImageRef is the runtime's reference of the image. Image is what the runtime says of it; it may be nil, but then
	// runAsNonRoot cannot be checked without a runAsUser.
	ImageRef string
	Image    *runtimeapi.Image
	// Env, Command and Args are final: variables are expanded.
	Env     []*runtimeapi.KeyValue
	Command []string
	Args    []string
	Mounts  []*runtimeapi.Mount
	Devices []*runtimeapi.Device
	// TargetID is the container whose processes this one sees, "" for none. It has no effect if the pod's containers share
	// their processes anyhow.
	TargetID string
	// Identity owns the container.
	Identity Identity
	// NodeMemoryBytes is the memory of the machine, to which the pod's requests are related.
	NodeMemoryBytes uint64
	// NodeCPUs is how many processors the machine has.
	NodeCPUs int
	// CgroupVersion is that of the machine. With 2, all processes of a container die together when it runs out of memory.
	CgroupVersion int
	// HugePageSizes are the sizes in bytes of the huge pages that the machine knows, in ascending order.
	HugePageSizes []int64
	// Swap is the machine's swap and who may use it.
	Swap Swap
	// IDs are the ids of the host that those of the pod's own user namespace stand for; nil if it has none.
	IDs *runtimeapi.IDMapping
	// ExitHook asks for the container that runs the preStop hook of Container after its end: it has a name and a log of its
	// own, and says what it is.
	ExitHook bool
	// SeccompDir is the directory on the host that localhost seccomp profiles are relative to; "" if there is none.
	SeccompDir string
}

// ContainerConfig returns the configuration of a container. An error means that the pod asks for what cannot be done.
func ContainerConfig(in ContainerInput) (*runtimeapi.ContainerConfig, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	security, err := containerSecurity(in)
	if err != nil {
		return nil, err
	}
	signal, err := stopSignal(in.Container)
	if err != nil {
		return nil, err
	}
	annotations, err := containerAnnotations(in)
	if err != nil {
		return nil, err
	}
	c, name, logPath := in.Container, in.Container.Name, ContainerLogPath(in.Container.Name, in.RestartCount)
	labels := podLabels(in.Pod, in.Identity, nil)
	if in.ExitHook {
		name, logPath = ExitHookName(c.Name), exitHookLogPath(c.Name)
		labels[LabelContainerKind] = KindExitHook
		annotations[AnnotationHookOf] = c.Name
	}
	labels[LabelContainerName] = name
	mounts := in.Mounts
	if in.IDs != nil {
		mounts = mapped(mounts, in.IDs)
	}
	return &runtimeapi.ContainerConfig{
		Metadata:    &runtimeapi.ContainerMetadata{Name: name, Attempt: uint32(in.RestartCount)}, //nolint:gosec // check refused negative ones
		Image:       &runtimeapi.ImageSpec{Image: in.ImageRef, UserSpecifiedImage: c.Image},
		Command:     in.Command,
		Args:        in.Args,
		WorkingDir:  c.WorkingDir,
		Envs:        in.Env,
		Mounts:      mounts,
		Devices:     in.Devices,
		Labels:      labels,
		Annotations: annotations,
		LogPath:     logPath,
		Stdin:       c.Stdin,
		StdinOnce:   c.StdinOnce,
		Tty:         c.TTY,
		StopSignal:  signal,
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources:       containerResources(in),
			SecurityContext: security,
		},
	}, nil
}

// check finds what the runtime would refuse with less of an explanation.
func (in ContainerInput) check() error {
	errs := []error{identified(in.Pod)}
	if in.Container.Name == "" {
		errs = append(errs, errors.New("the name of the container is empty"))
	}
	if in.ImageRef == "" {
		errs = append(errs, fmt.Errorf("the image reference of container %q is empty", in.Container.Name))
	}
	if in.RestartCount < 0 {
		errs = append(errs, fmt.Errorf("the restart count of container %q is negative: %d", in.Container.Name, in.RestartCount))
	}
	for _, m := range in.Mounts {
		if m.GetContainerPath() == "" || (m.GetHostPath() == "" && m.GetImage() == nil) {
			errs = append(errs, fmt.Errorf("a mount of container %q lacks a path: %q on the host, %q inside",
				in.Container.Name, m.GetHostPath(), m.GetContainerPath()))
		}
	}
	return errors.Join(errs...)
}

// containerAnnotations writes down what is needed to terminate the container when its pod is no longer known. RestorePod
// and ContainerFacts read it.
func containerAnnotations(in ContainerInput) (map[string]string, error) {
	c := in.Container
	out := map[string]string{
		AnnotationHash:                     ContainerHash(c),
		AnnotationRestartCount:             strconv.FormatInt(int64(in.RestartCount), 10),
		AnnotationTerminationMessagePath:   c.TerminationMessagePath,
		AnnotationTerminationMessagePolicy: string(c.TerminationMessagePolicy),
	}
	if grace := in.Pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		out[AnnotationPodTerminationGrace] = strconv.FormatInt(*grace, 10)
	}
	if grace := in.Pod.DeletionGracePeriodSeconds; grace != nil {
		out[AnnotationPodDeletionGrace] = strconv.FormatInt(*grace, 10)
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		b, err := json.Marshal(c.Lifecycle.PreStop)
		if err != nil {
			return nil, fmt.Errorf("encoding lifecycle.preStop of container %q: %w", c.Name, err)
		}
		out[AnnotationPreStopHandler] = string(b)
	}
	if len(c.Ports) > 0 {
		b, err := json.Marshal(c.Ports)
		if err != nil {
			return nil, fmt.Errorf("encoding ports of container %q: %w", c.Name, err)
		}
		out[AnnotationContainerPorts] = string(b)
	}
	return out, nil
}
