// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package staticpods

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/lifecycle"
)

const (
	// readPeriod is the kubelet's fileCheckFrequency and httpCheckFrequency.
	readPeriod = 20 * time.Second
	// settle is how long a directory may be quiet after a change before it is read: files are often written in pieces.
	settle = 100 * time.Millisecond
	// pageTimeout bounds one read of a URL, as in the kubelet.
	pageTimeout = 10 * time.Second
)

// feed makes events of the manifests of one origin.
type feed struct {
	name   string
	origin origin
	node   string
	clock  clock.WithTicker
	log    *slog.Logger
	// complain tells the user of a manifest that is of no use.
	complain func(origin string, err error)

	// The fields below belong to the goroutine of run.
	good   map[string][]*v1.Pod // the pods of the last valid version of each manifest
	said   map[string]string    // what was last complained of each
	pods   map[types.UID]*v1.Pod
	synced bool
}

// run reads and sends until ctx ends.
func (f *feed) run(ctx context.Context, send func(context.Context, lifecycle.PodEvent) error) {
	f.good, f.said, f.pods = map[string][]*v1.Pod{}, map[string]string{}, map[types.UID]*v1.Pod{}
	hints := make(chan struct{}, 1)
	var hinting sync.WaitGroup
	defer hinting.Wait()
	hinting.Go(func() {
		f.origin.hint(ctx, func() {
			select {
			case hints <- struct{}{}:
			default:
			}
		})
	})
	timer := f.clock.NewTimer(readPeriod)
	defer timer.Stop()
	for {
		for _, event := range f.poll(ctx) {
			if send(ctx, event) != nil {
				return
			}
		}
		timer.Reset(readPeriod)
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		case <-hints:
			timer.Reset(settle)
			select {
			case <-ctx.Done():
				return
			case <-timer.C():
			}
		}
	}
}

// poll reads once and says what changed. An origin that cannot be read changes nothing.
func (f *feed) poll(ctx context.Context) []lifecycle.PodEvent {
	wrong := map[string]error{}
	docs, broken, err := f.origin.read(ctx)
	if errors.Is(err, fs.ErrNotExist) && !f.synced {
		wrong[f.name], err = err, nil // there never was anything
	}
	if err != nil {
		if ctx.Err() == nil {
			f.report(f.name, err)
		}
		return nil
	}
	good := map[string][]*v1.Pod{}
	for path, err := range broken {
		wrong[path] = err
		if before, ok := f.good[path]; ok {
			good[path] = before
		}
	}
	for _, doc := range docs {
		pods, err := doc.pods(f.node)
		if err != nil {
			wrong[doc.origin] = err
			pods = f.good[doc.origin]
		}
		good[doc.origin] = pods
	}
	f.good = good
	events := f.diff(f.merge(wrong))
	f.complainOf(wrong)
	if !f.synced {
		f.synced = true
		events = append(events, lifecycle.PodEvent{Type: lifecycle.SourceSynced})
	}
	return events
}

// complainOf complains of everything that is wrong now, and forgets what was.
func (f *feed) complainOf(wrong map[string]error) {
	maps.DeleteFunc(f.said, func(origin, _ string) bool { return wrong[origin] == nil })
	for _, origin := range slices.Sorted(maps.Keys(wrong)) {
		f.report(origin, wrong[origin])
	}
}

// report complains of something once.
func (f *feed) report(origin string, err error) {
	if f.said[origin] == err.Error() {
		return
	}
	f.said[origin] = err.Error()
	f.log.Warn("A manifest cannot be used", "manifest", origin, "error", err)
	f.complain(origin, err)
}

// merge puts the pods of all manifests together. Of two with the same name the one of the first manifest wins, and the other
// is wrong.
func (f *feed) merge(wrong map[string]error) map[types.UID]*v1.Pod {
	pods := map[types.UID]*v1.Pod{}
	names := map[types.NamespacedName]string{}
	for _, origin := range slices.Sorted(maps.Keys(f.good)) {
		for _, pod := range f.good[origin] {
			name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
			if other, taken := names[name]; taken {
				wrong[origin] = errors.Join(wrong[origin], errors.New("metadata.name: pod "+name.String()+" is in "+other+" already"))
				continue
			}
			names[name] = origin
			pods[pod.UID] = pod
		}
	}
	return pods
}

// diff says what changed. A pod never does: a changed manifest makes another one.
func (f *feed) diff(pods map[types.UID]*v1.Pod) []lifecycle.PodEvent {
	var events []lifecycle.PodEvent
	for uid, pod := range f.pods {
		if pods[uid] == nil {
			events = append(events, lifecycle.PodEvent{Type: lifecycle.PodRemoved, Pod: pod})
		}
	}
	now := f.clock.Now()
	var added []lifecycle.PodEvent
	for uid, pod := range pods {
		if before := f.pods[uid]; before != nil {
			pods[uid] = before
			continue
		}
		pod.CreationTimestamp = metav1.NewTime(now)
		pod.Annotations[AnnotationSeen] = now.Format(time.RFC3339Nano)
		added = append(added, lifecycle.PodEvent{Type: lifecycle.PodAdded, Pod: pod})
	}
	slices.SortFunc(added, func(a, b lifecycle.PodEvent) int { return cmp.Compare(a.Pod.Name, b.Pod.Name) })
	f.pods = pods
	return append(events, added...)
}
