// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/containerd/errdefs"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
)

// TrustBundles reads certificates of authorities. The errors are those of Objects.
type TrustBundles interface {
	// TrustBundle returns a ClusterTrustBundle.
	TrustBundle(ctx context.Context, pod *v1.Pod, name string) (*certificatesv1.ClusterTrustBundle, error)
	// TrustBundles returns the ClusterTrustBundles of a signer that have the labels; none is no error.
	TrustBundles(ctx context.Context, pod *v1.Pod, signer string, wanted labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error)
}

// trust gathers certificates that a pod shall trust. Messages are the kubelet's.
func (c *collector) trust(ctx context.Context, source *v1.ClusterTrustBundleProjection) error {
	bundles, err := c.bundles(ctx, source)
	if err != nil {
		return err
	}
	user, mode := c.soleReader(source.User)
	c.add(source.Path, anchors(bundles), &mode, user)
	return nil
}

// bundles returns what a projection names. None may be named only if it is optional.
func (c *collector) bundles(ctx context.Context, source *v1.ClusterTrustBundleProjection) ([]*certificatesv1.ClusterTrustBundle, error) {
	optional := ptr.Deref(source.Optional, false)
	switch {
	case source.Name != nil:
		bundle, err := c.opts.Bundles.TrustBundle(ctx, c.pod, *source.Name)
		if errdefs.IsNotFound(err) && optional {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("while getting ClusterTrustBundle: %w", err)
		}
		return []*certificatesv1.ClusterTrustBundle{bundle}, nil
	case source.SignerName != nil:
		wanted, err := metav1.LabelSelectorAsSelector(source.LabelSelector) // without one, nothing matches
		if err != nil {
			return nil, fmt.Errorf("while parsing label selector: %w", err)
		}
		bundles, err := c.opts.Bundles.TrustBundles(ctx, c.pod, *source.SignerName, wanted)
		if err == nil && len(bundles) == 0 && !optional {
			err = errors.New("combination of signerName and labelSelector matched zero ClusterTrustBundles")
		}
		return bundles, err
	default:
		return nil, errors.New("ClusterTrustBundle projection requires either name or signerName to be set")
	}
}

// anchors puts certificates together, each once. Their order says nothing, and is the same for the same certificates.
func anchors(bundles []*certificatesv1.ClusterTrustBundle) []byte {
	found := map[string]struct{}{}
	for _, bundle := range bundles {
		block, rest := pem.Decode([]byte(bundle.Spec.TrustBundle))
		for block != nil {
			found[string(block.Bytes)] = struct{}{}
			block, rest = pem.Decode(rest)
		}
	}
	var out bytes.Buffer
	for _, der := range slices.Sorted(maps.Keys(found)) {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)}))
	}
	return out.Bytes()
}
