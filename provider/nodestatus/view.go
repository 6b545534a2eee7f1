// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// view is what the API says of the one node: a watch of that object alone, which is all that a node may see.
type view struct {
	name      string
	reflector *cache.Reflector
	// changed has a token when there is something the reader has not seen.
	changed chan struct{}

	mu     sync.Mutex
	node   *v1.Node
	synced bool
}

var _ cache.ReflectorStore = (*view)(nil)

func newView(client kubernetes.Interface, name string, clk clock.Clock) *view {
	v := &view{name: name, changed: make(chan struct{}, 1)}
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.FieldSelector = only
			return client.CoreV1().Nodes().List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.FieldSelector = only
			return client.CoreV1().Nodes().Watch(ctx, opts)
		},
	}, client)
	v.reflector = cache.NewReflectorWithOptions(lw, &v1.Node{}, v, cache.ReflectorOptions{Name: "node", Clock: clk})
	return v
}

// get returns the node as the API last showed it, nil if there is none; known says whether the API answered at all. The
// node is shared.
func (v *view) get() (node *v1.Node, known bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.node, v.synced
}

// Add takes the node.
func (v *view) Add(obj any) error { return v.put(obj) }

// Update takes the node's new version.
func (v *view) Update(obj any) error { return v.put(obj) }

func (v *view) put(obj any) error {
	node, ok := obj.(*v1.Node)
	if !ok {
		return fmt.Errorf("watching node %s: got a %T", v.name, obj)
	}
	if node.Name == v.name {
		v.change(func() { v.node = node })
	}
	return nil
}

// Delete forgets the node, unless it was made anew meanwhile.
func (v *view) Delete(obj any) error {
	gone, ok := obj.(*v1.Node)
	if !ok {
		return fmt.Errorf("watching node %s: got a %T", v.name, obj)
	}
	v.change(func() {
		if v.node != nil && v.node.UID == gone.UID {
			v.node = nil
		}
	})
	return nil
}

// Replace takes the answer of a list.
func (v *view) Replace(list []any, _ string) error {
	var found *v1.Node
	for _, obj := range list {
		if node, ok := obj.(*v1.Node); ok && node.Name == v.name {
			found = node
		}
	}
	v.change(func() { v.node, v.synced = found, true })
	return nil
}

// Resync does nothing: the reader asks for the newest state.
func (v *view) Resync() error { return nil }

func (v *view) change(f func()) {
	v.mu.Lock()
	f()
	v.mu.Unlock()
	select {
	case v.changed <- struct{}{}:
	default:
	}
}
