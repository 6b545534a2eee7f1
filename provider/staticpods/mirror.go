// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package staticpods

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
	"github.com/tombolo-dev/tombolo/provider/apierr"
)

const (
	// mirrorPeriod is how often mirror pods are compared with static pods, besides after each change.
	mirrorPeriod = 10 * time.Second
	// waitPeriod is how soon that happens again while a mirror pod waits for containers to stop, or a call failed.
	waitPeriod = 2 * time.Second
	// callTimeout bounds each call to the API.
	callTimeout = 10 * time.Second
)

// mirrors keeps one mirror pod for each static pod.
type mirrors struct {
	client corev1client.PodsGetter
	node   func() *v1.Node
	mayRun func(types.UID) bool
	clock  clock.WithTicker
	log    *slog.Logger
	wake   chan struct{}

	mu sync.Mutex
	// static are the static pods, present the mirror pods that the API has, by name.
	static  map[types.NamespacedName]*v1.Pod
	present map[types.NamespacedName]*v1.Pod
	// left are the static pods that went away while they had a mirror pod. Each may have come back since.
	left map[types.NamespacedName]*departure
}

// departure is a static pod that went away.
type departure struct {
	uid types.UID
	// stopped is when nothing of it was first seen to run, zero before.
	stopped time.Time
}

func nameOf(pod *v1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// isMirror says whether a pod of the API is a mirror pod.
func isMirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[AnnotationMirror]
	return ok
}

// standsFor says whether the pod of the API stands for the static pod.
func standsFor(mirror, static *v1.Pod) bool {
	return mirror != nil && static != nil && staticUID(mirror) == static.UID
}

// staticUID is the UID of the static pod that a mirror pod stands for.
func staticUID(mirror *v1.Pod) types.UID { return types.UID(mirror.Annotations[AnnotationMirror]) }

// want takes a static pod, or that it is gone.
func (m *mirrors) want(pod *v1.Pod, wanted bool) {
	m.mu.Lock()
	name := nameOf(pod)
	if wanted {
		m.static[name] = pod
	} else if s := m.static[name]; s != nil && s.UID == pod.UID {
		delete(m.static, name)
		if standsFor(m.present[name], pod) {
			m.left[name] = &departure{uid: pod.UID}
		}
	}
	m.mu.Unlock()
	m.poke()
}

// saw takes a mirror pod of the API, or that it is gone. It returns the static pod that it stands for, if any.
func (m *mirrors) saw(pod *v1.Pod, there bool) *v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.poke()
	name := nameOf(pod)
	if there {
		m.present[name] = pod
	} else if p := m.present[name]; p != nil && p.UID == pod.UID {
		delete(m.present, name)
	}
	if there && standsFor(pod, m.static[name]) {
		return m.static[name]
	}
	return nil
}

// knows says whether the UID is that of a static pod, be it one that went away and whose mirror pod is still there.
func (m *mirrors) knows(name types.NamespacedName, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	static, mirror := m.static[name], m.present[name]
	return static != nil && static.UID == uid || mirror != nil && staticUID(mirror) == uid
}

func (m *mirrors) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// run compares until ctx ends.
func (m *mirrors) run(ctx context.Context) {
	timer := m.clock.NewTimer(mirrorPeriod)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		case <-timer.C():
		}
		next := mirrorPeriod
		for name := range m.names() {
			if !m.reconcile(ctx, name) {
				next = waitPeriod
			}
		}
		timer.Reset(next)
	}
}

func (m *mirrors) names() map[types.NamespacedName]*v1.Pod {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.static)
	maps.Copy(all, m.present)
	return all
}

// reconcile makes the mirror pod of one name right. It says whether it is done with it.
func (m *mirrors) reconcile(ctx context.Context, name types.NamespacedName) bool {
	m.mu.Lock()
	static, mirror, left := m.static[name], m.present[name], m.left[name]
	if static == nil && mirror == nil {
		delete(m.left, name)
	}
	m.mu.Unlock()
	log := m.log.With("pod", name.String())
	switch {
	case mirror == nil:
		return m.create(ctx, log, static)
	case !standsFor(mirror, static):
		if m.mayRun(staticUID(mirror)) || !m.toldEnd(mirror, left) {
			return false // it is shown until nothing runs any more
		}
	case mirror.DeletionTimestamp == nil:
		if left == nil || left.uid != static.UID || !podrules.Terminal(mirror.Status.Phase) {
			return true
		}
		if !m.mayRun(static.UID) {
			return false
		}
		// The pod came back, but this tells how it ended before, and a phase that is terminal can never be another.
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := apierr.Classify(m.client.Pods(name.Namespace).Delete(ctx, name.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(mirror.UID)),
	}))
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		log.Warn("Deleting a mirror pod failed, trying again", "error", err)
		return false
	}
	log.Info("Mirror pod deleted", "uid", mirror.UID)
	m.returned(name, staticUID(mirror))
	m.saw(mirror, false)
	return static == nil
}

// returned forgets that a static pod went away: a mirror pod that is made from now on tells of its life since.
func (m *mirrors) returned(name types.NamespacedName, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if left := m.left[name]; left != nil && left.uid == uid {
		delete(m.left, name)
	}
}

// toldEnd says whether a mirror pod shows how its static pod ended, which has stopped, or had time enough for that.
func (m *mirrors) toldEnd(mirror *v1.Pod, left *departure) bool {
	if left == nil || left.uid != staticUID(mirror) || podrules.Terminal(mirror.Status.Phase) {
		return true
	}
	now := m.clock.Now()
	if left.stopped.IsZero() {
		left.stopped = now
	}
	return now.Sub(left.stopped) >= waitPeriod
}

// create makes a mirror pod. NodeRestriction wants it to belong to the node.
func (m *mirrors) create(ctx context.Context, log *slog.Logger, static *v1.Pod) bool {
	node := m.node()
	if static == nil {
		return true
	}
	if node == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := m.client.Pods(static.Namespace).Create(ctx, mirrorOf(static, node), metav1.CreateOptions{})
	switch err = apierr.Classify(err); {
	case err == nil:
		m.returned(nameOf(static), static.UID)
		log.Info("Mirror pod created", "static_uid", static.UID)
		return true
	case errdefs.IsAlreadyExists(err): // the watch will show it, or it is no mirror pod
		log.Debug("There is a pod of the mirror pod's name", "error", err)
	default:
		log.Warn("Creating a mirror pod failed, trying again", "error", err)
	}
	return false
}

// mirrorOf makes the object that stands for a static pod.
func mirrorOf(static *v1.Pod, node *v1.Node) *v1.Pod {
	pod := static.DeepCopy()
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace: static.Namespace, Name: static.Name, Labels: pod.Labels, Annotations: pod.Annotations,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: new(true),
		}},
	}
	pod.Annotations[AnnotationMirror] = string(static.UID)
	pod.Status = v1.PodStatus{}
	return pod
}
