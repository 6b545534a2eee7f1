// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"strings"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"
)

const defaultTag = "latest"

// WithDefaultTag checks an image name and adds ":latest" if it has neither tag nor digest. It adds nothing else: which
// registry a short name means is for the runtime to decide.
func WithDefaultTag(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("couldn't parse image name %q: %w", image, err)
	}
	if reference.IsNameOnly(named) {
		return image + ":" + defaultTag, nil
	}
	return image, nil
}

// pullPolicy returns the container's policy. The API server sets it always; what it would set is repeated here.
func pullPolicy(container *v1.Container, imageWithTag string) v1.PullPolicy {
	switch {
	case container.ImagePullPolicy != "":
		return container.ImagePullPolicy
	case strings.HasSuffix(imageWithTag, ":"+defaultTag):
		return v1.PullAlways
	default:
		return v1.PullIfNotPresent
	}
}
