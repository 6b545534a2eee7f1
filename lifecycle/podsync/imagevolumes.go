// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// ensureImageVolumes makes the images available that a container mounts. Each is looked for once in a sync, whichever containers mount
// it. The error is that of Images, or of ctx.
func (p *pass) ensureImageVolumes(ctx context.Context, c *v1.Container) error {
	for i := range p.pod.Spec.Volumes {
		v := &p.pod.Spec.Volumes[i]
		_, known := p.images[v.Name]
		if v.Image == nil || known || !slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == v.Name }) {
			continue
		}
		// Without a name it is the pod that events are about.
		ref, err := p.opts.Images.EnsureImage(ctx, p.pod, &v1.Container{Image: v.Image.Reference, ImagePullPolicy: v.Image.PullPolicy}, p.sandbox)
		if err != nil {
			return err
		}
		if p.images == nil {
			p.images = map[string]string{}
		}
		p.images[v.Name] = ref
	}
	return nil
}

// recursiveReadOnly says whether the pod's runtime can make read-only what is mounted below a mount, if the container asks for that.
func (p *pass) recursiveReadOnly(ctx context.Context, c *v1.Container) (bool, error) {
	asks := func(m v1.VolumeMount) bool {
		return ptr.Deref(m.RecursiveReadOnly, v1.RecursiveReadOnlyDisabled) != v1.RecursiveReadOnlyDisabled
	}
	if p.opts.Node == nil || !slices.ContainsFunc(c.VolumeMounts, asks) {
		return false, nil
	}
	_, features, err := p.handlerFeatures(ctx)
	return ptr.Deref(features.RecursiveReadOnlyMounts, false), err
}
