// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/podenv"
	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/lifecycle/volume"
)

// create makes the next container of the name and returns its id.
func (p *pass) create(ctx context.Context, c *v1.Container, newest *cri.ContainerStatus, ref, containerType string) (string, error) {
	if newest != nil && newest.State == cri.ContainerCreated {
		// It is of no use, holds the number that the next one gets, and must not be started by a call that is on its way.
		if err := p.opts.Runtime.RemoveContainer(ctx, newest.ID); err != nil {
			return "", p.failed(ctx, c, containerType, reasonCreate, withoutID(err, newest.ID, c.Name))
		}
	}
	cfg, err := p.containerConfig(ctx, c, newest, ref)
	if err != nil {
		return "", p.failed(ctx, c, containerType, reasonConfig, err)
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	id, err := p.opts.Runtime.CreateContainer(context.WithoutCancel(ctx), p.sandboxID, cfg, p.sandbox)
	if err != nil {
		return "", p.failed(ctx, c, containerType, reasonCreate, err)
	}
	p.result.Acted = true
	if p.opts.Resizer != nil {
		p.opts.Resizer.Created(p.pod, c, id)
	}
	p.containerEvent(c, v1.EventTypeNormal, "Created", "Container created")
	return id, nil
}

// containerConfig puts together what the container is made of.
func (p *pass) containerConfig(
	ctx context.Context, c *v1.Container, newest *cri.ContainerStatus, imageRef string,
) (*runtimeapi.ContainerConfig, error) {
	timed, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	number, err := p.restartNumber(timed, c, newest)
	if err != nil {
		return nil, err
	}
	in, err := p.containerInput(timed, c, number, imageRef)
	if err != nil {
		return nil, err
	}
	return cri.ContainerConfig(in)
}

// containerInput gathers what the configuration of a container is made of.
func (p *pass) containerInput(ctx context.Context, c *v1.Container, number int32, imageRef string) (cri.ContainerInput, error) {
	env, err := p.environment(ctx, c)
	if err != nil {
		return cri.ContainerInput{}, err
	}
	recursive, err := p.recursiveReadOnly(ctx, c)
	if err != nil {
		return cri.ContainerInput{}, err
	}
	mounts, err := p.opts.Volumes.Mounts(ctx, volume.MountInput{
		Pod: p.pod, Container: c, RestartCount: number, Env: env.Env, Images: p.images, RecursiveReadOnly: recursive,
	})
	if err != nil {
		return cri.ContainerInput{}, err
	}
	mounts, err = p.withHostsFile(ctx, c, mounts)
	if err != nil {
		return cri.ContainerInput{}, err
	}
	devices, err := p.opts.Volumes.Devices(p.pod, c)
	if err != nil {
		return cri.ContainerInput{}, err
	}
	target, err := targetOf(p.pod, p.status, c.Name)
	if err != nil {
		return cri.ContainerInput{}, err
	}
	image, err := p.imageUser(ctx, c, imageRef)
	if err != nil {
		return cri.ContainerInput{}, err
	}
	profiles, err := p.seccompDir(ctx, c)
	if err != nil {
		return cri.ContainerInput{}, err
	}
	return cri.ContainerInput{
		Pod: p.pod, Container: c, RestartCount: number, ImageRef: imageRef, Image: image,
		Env: env.Env, Command: env.Command, Args: env.Args, Mounts: mounts, Devices: devices, Identity: p.opts.Identity, TargetID: target,
		NodeMemoryBytes: p.facts.MemoryBytes, NodeCPUs: p.facts.CPUs, CgroupVersion: p.facts.CgroupVersion,
		HugePageSizes: hugePageSizes(p.facts), IDs: p.ids, SeccompDir: profiles,
		Swap: cri.Swap{Bytes: p.facts.SwapBytes, Control: p.facts.SwapControl, Limited: p.opts.LimitedSwap},
	}, nil
}

func hugePageSizes(facts *host.Facts) []int64 {
	var out []int64
	for _, pages := range facts.HugePages {
		out = append(out, int64(min(pages.PageBytes, math.MaxInt64)))
	}
	return out
}

// reachReferences waits for what the variables of a container refer to, so that nobody waits for it who has a turn. They are
// resolved anew, from what is known by then, when the container is made.
func (p *pass) reachReferences(ctx context.Context, c *v1.Container) error {
	timed, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	_, err := p.environment(timed, c)
	return err
}

// environment resolves the variables of a container as things are now.
func (p *pass) environment(ctx context.Context, c *v1.Container) (*podenv.Output, error) {
	in := podenv.Input{Pod: p.pod, Container: c, Objects: p.opts.Objects, Files: p.opts.Volumes}
	if p.opts.HostIPs != nil {
		in.HostIPs = p.opts.HostIPs()
	}
	in.PodIPs = podrules.PodIPs(p.pod, p.ips, in.HostIPs)
	if p.opts.Node != nil {
		in.Node = p.opts.Node()
	}
	out, err := podenv.Resolve(ctx, in)
	var away *podenv.HostError
	if err != nil && ctx.Err() == nil && !errors.As(err, &away) {
		return nil, &referenceError{err}
	}
	return out, err
}

// targetOf returns the id of the container whose processes the named ephemeral container shall see, "" if it has none.
func targetOf(pod *v1.Pod, status *cri.PodStatus, name string) (string, error) {
	for i := range pod.Spec.EphemeralContainers {
		ec := &pod.Spec.EphemeralContainers[i]
		if ec.Name != name || ec.TargetContainerName == "" {
			continue
		}
		target := status.Newest(ec.TargetContainerName)
		if target == nil {
			return "", fmt.Errorf("unable to find target container %s", ec.TargetContainerName)
		}
		return target.ID, nil
	}
	return "", nil
}

// restartNumber returns the number of the next container of the name.
func (p *pass) restartNumber(ctx context.Context, c *v1.Container, newest *cri.ContainerStatus) (int32, error) {
	published := publishedRestarts(p.pod, c.Name)
	var logs int32
	if logsNeeded(newest, published) {
		var err error
		if logs, err = p.opts.Logs.RestartCount(ctx, p.hostPod(), c.Name); err != nil {
			return 0, fmt.Errorf("looking for log files of container %q: %w", c.Name, err)
		}
	}
	return restartNumber(newest, published, logs), nil
}

// imageUser asks the runtime for the user of the image if the pod leaves that to it. It must be told: what a runtime makes of an image's
// user by itself includes the image's group, which a container has only if the pod says so.
func (p *pass) imageUser(ctx context.Context, c *v1.Container, ref string) (*runtimeapi.Image, error) {
	own, whole := ptr.Deref(c.SecurityContext, v1.SecurityContext{}), ptr.Deref(p.pod.Spec.SecurityContext, v1.PodSecurityContext{})
	if own.RunAsUser != nil || whole.RunAsUser != nil {
		return nil, nil
	}
	return p.opts.Runtime.ImageStatus(ctx, ref)
}
