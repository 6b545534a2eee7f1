// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// fakeObjects are the objects of an API server that pods refer to, by namespace/name.
type fakeObjects struct {
	mu         sync.Mutex
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
	services   []*v1.Service
	// readers are the pods that read something and were not forgotten.
	readers map[types.UID]bool
}

var _ Objects = (*fakeObjects)(nil)

func newFakeObjects() *fakeObjects {
	return &fakeObjects{
		configMaps: map[string]*v1.ConfigMap{}, secrets: map[string]*v1.Secret{}, readers: map[types.UID]bool{},
	}
}

func (f *fakeObjects) ConfigMap(_ context.Context, pod *v1.Pod, name string) (*v1.ConfigMap, error) {
	return readFake(f, f.configMaps, "configmap", pod, name)
}

func (f *fakeObjects) Secret(_ context.Context, pod *v1.Pod, name string) (*v1.Secret, error) {
	return readFake(f, f.secrets, "secret", pod, name)
}

func readFake[T any](f *fakeObjects, from map[string]T, kind string, pod *v1.Pod, name string) (T, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers[pod.UID] = true
	object, ok := from[pod.Namespace+"/"+name]
	if !ok {
		return object, fmt.Errorf("%s %q %w", kind, name, errdefs.ErrNotFound)
	}
	return object, nil
}

func (f *fakeObjects) Services(_ context.Context, namespace string) ([]*v1.Service, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*v1.Service
	for _, s := range f.services {
		if s.Namespace == namespace {
			out = append(out, s)
		}
	}
	return out, nil
}

func (f *fakeObjects) Token(_ context.Context, pod *v1.Pod, audience string, _ int64) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers[pod.UID] = true
	return "token of " + pod.Spec.ServiceAccountName + " for " + audience, nil
}

func (f *fakeObjects) Forget(uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.readers, uid)
}

// change changes the objects.
func (f *fakeObjects) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// Claim finds no claim.
func (*fakeObjects) Claim(_ context.Context, _ *v1.Pod, name string) (*v1.PersistentVolumeClaim, error) {
	return nil, fmt.Errorf("persistentvolumeclaims %q %w", name, errdefs.ErrNotFound)
}

// PersistentVolume finds no volume.
func (*fakeObjects) PersistentVolume(_ context.Context, _ *v1.Pod, name string) (*v1.PersistentVolume, error) {
	return nil, fmt.Errorf("persistentvolumes %q %w", name, errdefs.ErrNotFound)
}

// TrustBundle finds no bundle.
func (*fakeObjects) TrustBundle(_ context.Context, _ *v1.Pod, name string) (*certificatesv1.ClusterTrustBundle, error) {
	return nil, fmt.Errorf("clustertrustbundle %q %w", name, errdefs.ErrNotFound)
}

// TrustBundles finds no bundles.
func (*fakeObjects) TrustBundles(context.Context, *v1.Pod, string, labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	return nil, nil
}

// PodCertificate has no signer.
func (*fakeObjects) PodCertificate(context.Context, *v1.Pod, string, int, *v1.PodCertificateProjection) (key, chain []byte, err error) {
	return nil, nil, errdefs.ErrUnavailable
}
