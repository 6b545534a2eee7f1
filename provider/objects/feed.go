// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/tombolo-dev/tombolo/provider/apierr"
)

// minWatch is how long a watch is asked to live at least, as in the kubelet: there may be many.
const minWatch = 30 * time.Minute

// retry is the pause after a failed read: at most nine seconds, so that volumes are whole again soon after the API is.
var retry = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10, Cap: 6 * time.Second}

// feed is one watch of one object. What comes after it was replaced or stopped is dropped.
type feed[T metav1.Object] struct {
	watches *watches[T]
	entry   *entry[T]
	cancel  context.CancelFunc
}

var _ cache.ReflectorStore = (*feed[*metav1.ObjectMeta])(nil)

func (f *feed[T]) reflector() *cache.Reflector {
	k, name := &f.watches.kind, f.entry.name
	backoff := retry
	return cache.NewReflectorWithOptions(k.only(name.Namespace, name.Name, f.failed), k.example, f, cache.ReflectorOptions{
		Name: k.name, Clock: f.watches.clock, MinWatchTimeout: minWatch, Backoff: &backoff,
	})
}

// failed keeps why a read failed.
func (f *feed[T]) failed(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	f.watches.mu.Lock()
	defer f.watches.mu.Unlock()
	if f.entry.feed == f {
		f.entry.failure = apierr.Classify(err)
	}
}

// Add takes the object.
func (f *feed[T]) Add(obj any) error { return f.put(obj) }

// Update takes its new version.
func (f *feed[T]) Update(obj any) error { return f.put(obj) }

func (f *feed[T]) put(obj any) error {
	object, err := f.objectOf(obj)
	if err != nil {
		return err
	}
	if object.GetName() == f.entry.name.Name {
		f.take(object, true)
	}
	return nil
}

// Delete takes note that the object is gone.
func (f *feed[T]) Delete(obj any) error {
	object, err := f.objectOf(obj)
	if err != nil {
		return err
	}
	if object.GetName() == f.entry.name.Name {
		var none T
		f.take(none, false)
	}
	return nil
}

// Replace takes a complete answer.
func (f *feed[T]) Replace(list []any, _ string) error {
	var object T
	found := false
	for _, obj := range list {
		listed, err := f.objectOf(obj)
		if err != nil {
			return err
		}
		if listed.GetName() == f.entry.name.Name {
			object, found = listed, true
		}
	}
	f.take(object, found)
	return nil
}

// Resync does nothing: readers ask for the newest state.
func (f *feed[T]) Resync() error { return nil }

// objectOf checks what came and drops the record of field managers, which nobody here reads.
func (f *feed[T]) objectOf(obj any) (T, error) {
	object, ok := obj.(T)
	if !ok {
		return object, fmt.Errorf("watching %s %s: got a %T", f.watches.kind.name, f.entry.name, obj)
	}
	object.SetManagedFields(nil)
	return object, nil
}

// take keeps the newest version and tells the pods if it is news to them.
func (f *feed[T]) take(object T, found bool) {
	w, e := f.watches, f.entry
	w.mu.Lock()
	if e.feed != f {
		w.mu.Unlock()
		return
	}
	news := e.missed || e.known && (found != e.found || found && object.GetResourceVersion() != e.object.GetResourceVersion())
	e.object, e.found, e.known = object, found, true
	e.missed, e.failure = false, nil
	select {
	case <-e.answered:
	default:
		close(e.answered)
	}
	if found && w.kind.immutable(object) {
		e.final = true
		w.stop(e)
	}
	var pods []types.UID
	if news {
		pods = slices.Collect(maps.Keys(e.pods))
	}
	w.mu.Unlock()
	if news {
		w.log.Debug("an object that pods refer to changed", "kind", w.kind.name, "object", e.name.String(), "exists", found, "pods", len(pods))
		w.changed(pods)
	}
}
