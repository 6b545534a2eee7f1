// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/lifecycle"
)

// Objects are those of an API that has no ConfigMaps, Secrets and Services, and gives no tokens.
type Objects struct{}

var _ lifecycle.Objects = Objects{}

// ConfigMap finds none.
func (Objects) ConfigMap(_ context.Context, _ *v1.Pod, name string) (*v1.ConfigMap, error) {
	return nil, fmt.Errorf("configmap %q %w", name, errdefs.ErrNotFound)
}

// Secret finds none.
func (Objects) Secret(_ context.Context, _ *v1.Pod, name string) (*v1.Secret, error) {
	return nil, fmt.Errorf("secret %q %w", name, errdefs.ErrNotFound)
}

// Services finds none.
func (Objects) Services(context.Context, string) ([]*v1.Service, error) { return nil, nil }

// Token gives none.
func (Objects) Token(_ context.Context, pod *v1.Pod, _ string, _ int64) (string, error) {
	return "", fmt.Errorf("serviceaccounts %q %w", pod.Spec.ServiceAccountName, errdefs.ErrNotFound)
}

// Forget has nothing to forget.
func (Objects) Forget(types.UID) {}

// Claim finds no claim.
func (Objects) Claim(_ context.Context, _ *v1.Pod, name string) (*v1.PersistentVolumeClaim, error) {
	return nil, fmt.Errorf("persistentvolumeclaims %q %w", name, errdefs.ErrNotFound)
}

// PersistentVolume finds no volume.
func (Objects) PersistentVolume(_ context.Context, _ *v1.Pod, name string) (*v1.PersistentVolume, error) {
	return nil, fmt.Errorf("persistentvolumes %q %w", name, errdefs.ErrNotFound)
}

// TrustBundle finds no bundle.
func (Objects) TrustBundle(_ context.Context, _ *v1.Pod, name string) (*certificatesv1.ClusterTrustBundle, error) {
	return nil, fmt.Errorf("clustertrustbundle %q %w", name, errdefs.ErrNotFound)
}

// TrustBundles finds no bundles.
func (Objects) TrustBundles(context.Context, *v1.Pod, string, labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	return nil, nil
}

// PodCertificate has no signer.
func (Objects) PodCertificate(context.Context, *v1.Pod, string, int, *v1.PodCertificateProjection) (key, chain []byte, err error) {
	return nil, nil, errdefs.ErrUnavailable
}
