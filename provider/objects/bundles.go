// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/containerd/errdefs"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/provider/apierr"
)

// errBundlesUnread is the kubelet's.
var errBundlesUnread = &waitError{text: "ClusterTrustBundle informer has not yet synced", class: errdefs.ErrUnavailable}

// bundles are all ClusterTrustBundles of the cluster: they are few, public, and chosen by their signer and labels. They are watched
// from the first read on.
type bundles struct {
	reflector *cache.Reflector
	changed   func([]types.UID)
	clock     clock.Clock
	// wanted is closed at the first read, and read when all of them were read once.
	wanted, read chan struct{}

	mu  sync.Mutex
	all map[string]*certificatesv1.ClusterTrustBundle
	// readers are the pods that read some.
	readers map[types.UID]struct{}
}

var _ cache.ReflectorStore = (*bundles)(nil)

func newBundles(o Options) *bundles {
	b := &bundles{
		changed: o.Changed, clock: o.Clock, wanted: make(chan struct{}), read: make(chan struct{}),
		all: map[string]*certificatesv1.ClusterTrustBundle{}, readers: map[types.UID]struct{}{},
	}
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return o.Client.CertificatesV1().ClusterTrustBundles().List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			return o.Client.CertificatesV1().ClusterTrustBundles().Watch(ctx, opts)
		},
	}, o.Client)
	b.reflector = cache.NewReflectorWithOptions(lw, &certificatesv1.ClusterTrustBundle{}, b,
		cache.ReflectorOptions{Name: "clustertrustbundles", Clock: o.Clock})
	return b
}

func (b *bundles) run(ctx context.Context) {
	select {
	case <-b.wanted:
		b.reflector.RunWithContext(ctx)
	case <-ctx.Done():
	}
}

// named returns the bundle of a name.
func (b *bundles) named(ctx context.Context, pod *v1.Pod, name string) (*certificatesv1.ClusterTrustBundle, error) {
	if err := b.await(ctx, pod.UID); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	bundle, ok := b.all[name]
	if !ok {
		return nil, apierr.Classify(apierrors.NewNotFound(certificatesv1.Resource("clustertrustbundle"), name))
	}
	return bundle, nil
}

// signedBy returns the bundles of a signer that have the labels, sorted by name.
func (b *bundles) signedBy(ctx context.Context, pod *v1.Pod, signer string, wanted labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	if err := b.await(ctx, pod.UID); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []*certificatesv1.ClusterTrustBundle
	for _, name := range slices.Sorted(maps.Keys(b.all)) {
		if bundle := b.all[name]; bundle.Spec.SignerName == signer && wanted.Matches(labels.Set(bundle.Labels)) {
			out = append(out, bundle)
		}
	}
	return out, nil
}

// await notes a reader and waits until the bundles were read once, for a bounded time.
func (b *bundles) await(ctx context.Context, uid types.UID) error {
	b.mu.Lock()
	b.readers[uid] = struct{}{}
	select {
	case <-b.wanted:
	default:
		close(b.wanted)
	}
	b.mu.Unlock()
	if err := await(ctx, b.clock, b.read); err != nil {
		return err
	}
	select {
	case <-b.read:
		return nil
	default:
		return errBundlesUnread
	}
}

func (b *bundles) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.readers, uid)
}

// Add takes a new bundle.
func (b *bundles) Add(obj any) error { return b.put(obj) }

// Update takes a new version of a bundle.
func (b *bundles) Update(obj any) error { return b.put(obj) }

func (b *bundles) put(obj any) error {
	bundle, err := bundleOf(obj)
	if err == nil {
		b.change(func() { b.all[bundle.Name] = bundle })
	}
	return err
}

// Delete drops a bundle.
func (b *bundles) Delete(obj any) error {
	bundle, err := bundleOf(obj)
	if err == nil {
		b.change(func() { delete(b.all, bundle.Name) })
	}
	return err
}

// Replace takes a complete list.
func (b *bundles) Replace(list []any, _ string) error {
	all := map[string]*certificatesv1.ClusterTrustBundle{}
	for _, obj := range list {
		bundle, err := bundleOf(obj)
		if err != nil {
			return err
		}
		all[bundle.Name] = bundle
	}
	b.change(func() {
		b.all = all
		select {
		case <-b.read:
		default:
			close(b.read)
		}
	})
	return nil
}

// Resync does nothing: readers ask for the newest state.
func (b *bundles) Resync() error { return nil }

// change changes what is known and tells everyone who read some of it: it may be theirs.
func (b *bundles) change(do func()) {
	b.mu.Lock()
	do()
	readers := slices.Collect(maps.Keys(b.readers))
	b.mu.Unlock()
	b.changed(readers)
}

func bundleOf(obj any) (*certificatesv1.ClusterTrustBundle, error) {
	bundle, ok := obj.(*certificatesv1.ClusterTrustBundle)
	if !ok {
		return nil, fmt.Errorf("watching trust bundles: got a %T", obj)
	}
	return bundle, nil
}
