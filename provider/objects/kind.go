// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

// kind is how objects of one kind are read.
type kind[T metav1.Object] struct {
	// name is the kind's name in errors and metrics, as the kubelet writes it.
	name string
	// example is any object of the kind.
	example T
	list    func(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error)
	watch   func(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error)
	// immutable says of an object that it can never change.
	immutable func(T) bool
	// shown says whether a volume of the pod shows the object of that name.
	shown func(pod *v1.Pod, name string) bool
	// client tells what the API can do.
	client kubernetes.Interface
}

func configMapsOf(client kubernetes.Interface) kind[*v1.ConfigMap] {
	return kind[*v1.ConfigMap]{
		name: "configmap", example: &v1.ConfigMap{}, client: client,
		list: func(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().ConfigMaps(namespace).List(ctx, opts)
		},
		watch: func(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().ConfigMaps(namespace).Watch(ctx, opts)
		},
		immutable: func(m *v1.ConfigMap) bool { return ptr.Deref(m.Immutable, false) },
		shown: func(pod *v1.Pod, name string) bool {
			return anySource(pod, func(v *v1.VolumeProjection) bool { return v.ConfigMap != nil && v.ConfigMap.Name == name })
		},
	}
}

func secretsOf(client kubernetes.Interface) kind[*v1.Secret] {
	return kind[*v1.Secret]{
		name: "secret", example: &v1.Secret{}, client: client,
		list: func(ctx context.Context, namespace string, opts metav1.ListOptions) (runtime.Object, error) {
			return client.CoreV1().Secrets(namespace).List(ctx, opts)
		},
		watch: func(ctx context.Context, namespace string, opts metav1.ListOptions) (watch.Interface, error) {
			return client.CoreV1().Secrets(namespace).Watch(ctx, opts)
		},
		immutable: func(s *v1.Secret) bool { return ptr.Deref(s.Immutable, false) },
		shown: func(pod *v1.Pod, name string) bool {
			return anySource(pod, func(v *v1.VolumeProjection) bool { return v.Secret != nil && v.Secret.Name == name })
		},
	}
}

// anySource asks about each source of the pod's volumes, those that are a volume of their own included.
func anySource(pod *v1.Pod, matches func(*v1.VolumeProjection) bool) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		var own v1.VolumeProjection
		if v.ConfigMap != nil {
			own.ConfigMap = &v1.ConfigMapProjection{LocalObjectReference: v.ConfigMap.LocalObjectReference}
		}
		if v.Secret != nil {
			own.Secret = &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: v.Secret.SecretName}}
		}
		if matches(&own) {
			return true
		}
		if v.Projected == nil {
			continue
		}
		for j := range v.Projected.Sources {
			if matches(&v.Projected.Sources[j]) {
				return true
			}
		}
	}
	return false
}

// only reads the one object of the name. The reads that fail are told to failed.
func (k *kind[T]) only(namespace, name string, failed func(error)) cache.ListerWatcher {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.FieldSelector = selector
			list, err := k.list(ctx, namespace, opts)
			failed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.FieldSelector = selector
			w, err := k.watch(ctx, namespace, opts)
			failed(err)
			return w, err
		},
	}, k.client)
}
