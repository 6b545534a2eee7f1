// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

func TestMain(m *testing.M) {
	// client-go's own handler waits by the real clock, which ends in a far future inside a bubble of synctest.
	utilruntime.ErrorHandlers = nil
	m.Run()
}

// api is an API server: client-go's fake, with failures, that holds the node to reads of single objects.
type api struct {
	t      *testing.T
	client *fake.Clientset

	mu sync.Mutex
	// failure is what every read and request ends with, unless it is nil.
	failure error
	// lists counts the lists of each kind. open are the watches that were not ended.
	lists map[string]int
	open  []*countedWatch
	// told are the pods that were named to Changed, in order.
	told []types.UID
	// warnings are the events that there were.
	warnings []string
	// requests are those for tokens, and life what they are good for, if not for what was asked.
	requests []*authv1.TokenRequest
	life     int64
	skew     time.Duration
}

// countedWatch knows whether it was ended.
type countedWatch struct {
	watch.Interface
	kind  string
	ended chan struct{}
	once  sync.Once
}

func (w *countedWatch) Stop() {
	w.once.Do(func() { close(w.ended) })
	w.Interface.Stop()
}

// inBubble runs body with Objects on an API of the given objects.
func inBubble(t *testing.T, objects []runtime.Object, body func(t *testing.T, a *api, o *Objects)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := &api{t: t, client: fake.NewClientset(objects...), lists: map[string]int{}}
		a.client.PrependReactor("list", "*", a.list)
		a.client.PrependReactor("create", "serviceaccounts", a.token)
		a.client.PrependWatchReactor("*", a.watch)
		o := New(Options{Client: a.client, Node: "node", Changed: a.changed, Event: a.warn, Clock: clock.RealClock{}})
		o.tokens.jitter = func(time.Duration) time.Duration { return time.Second }
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); o.Run(ctx) }()
		synctest.Wait()
		body(t, a, o)
		cancel()
		<-done
	})
}

func (a *api) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = err
}

func (a *api) changed(pods []types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = append(a.told, slices.Sorted(slices.Values(pods))...)
}

func (a *api) warn(pod *v1.Pod, reason, message string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.warnings = append(a.warnings, pod.Name+" "+reason+" "+message)
}

// warned returns the events that there were, once nothing more comes by itself.
func (a *api) warned() []string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.warnings
}

// news returns whom Changed was told of since the last call, once nothing more comes by itself.
func (a *api) news() string {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, uid := range a.told {
		out = append(out, string(uid))
	}
	a.told = nil
	return strings.Join(out, " ")
}

// watched counts the watches of a kind that are open.
func (a *api) watched(kind string) int {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, w := range a.open {
		select {
		case <-w.ended:
		default:
			if w.kind == kind {
				n++
			}
		}
	}
	return n
}

func (a *api) list(action clientgotesting.Action) (bool, runtime.Object, error) {
	list, ok := action.(clientgotesting.ListActionImpl)
	if !ok {
		a.t.Errorf("a list is a %T", action)
	}
	kind := action.GetResource().Resource
	a.checkSingle(kind, list.Namespace, list.ListRestrictions)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lists[kind]++
	return a.failure != nil, nil, a.failure
}

func (a *api) watch(action clientgotesting.Action) (bool, watch.Interface, error) {
	w, ok := action.(clientgotesting.WatchActionImpl)
	if !ok {
		a.t.Errorf("a watch is a %T", action)
	}
	kind := action.GetResource().Resource
	a.checkSingle(kind, w.Namespace, clientgotesting.ListRestrictions{Fields: w.WatchRestrictions.Fields})
	a.mu.Lock()
	failure := a.failure
	a.mu.Unlock()
	if failure != nil {
		return true, nil, failure
	}
	inner, err := a.client.Tracker().Watch(action.GetResource(), w.Namespace, w.ListOptions)
	if err != nil {
		return true, nil, err
	}
	counted := &countedWatch{Interface: inner, kind: kind, ended: make(chan struct{})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open = append(a.open, counted)
	return true, counted, nil
}

// checkSingle fails the test if a read is one that the Node authorizer forbids.
func (a *api) checkSingle(kind, namespace string, r clientgotesting.ListRestrictions) {
	if kind == "services" || kind == "clustertrustbundles" {
		return
	}
	if node, exact := r.Fields.RequiresExactMatch("spec.nodeName"); kind == "podcertificaterequests" && exact && node == "node" {
		return
	}
	if name, exact := r.Fields.RequiresExactMatch("metadata.name"); namespace == "" || !exact || name == "" {
		a.t.Errorf("%s of namespace %q are read with the selector %q, which no node may", kind, namespace, r.Fields)
	}
}

func (a *api) token(action clientgotesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clientgotesting.CreateActionImpl)
	if !ok || create.Subresource != "token" {
		return false, nil, nil
	}
	request, ok := create.Object.(*authv1.TokenRequest)
	if !ok {
		return false, nil, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.failure != nil {
		return true, nil, a.failure
	}
	a.requests = append(a.requests, request.DeepCopy())
	out := request.DeepCopy()
	if a.life != 0 {
		out.Spec.ExpirationSeconds = &a.life
	}
	out.Status.Token = fmt.Sprintf("%s-%d", create.Name, len(a.requests))
	out.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(a.skew + time.Duration(*out.Spec.ExpirationSeconds)*time.Second))
	return true, out, nil
}

// asked returns how many tokens were granted.
func (a *api) asked() int {
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.requests)
}

func podOf(uid string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pod-" + uid, UID: types.UID(uid)}}
	p.Spec.ServiceAccountName = "sa"
	for _, f := range change {
		f(p)
	}
	return p
}

func configMap(name, value string, change ...func(*v1.ConfigMap)) *v1.ConfigMap {
	m := &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: "rv-" + value},
		Data:       map[string]string{"k": value},
	}
	for _, f := range change {
		f(m)
	}
	return m
}

// update changes an object in the API.
func (a *api) update(m *v1.ConfigMap) {
	if _, err := a.client.CoreV1().ConfigMaps("ns").Update(a.t.Context(), m, metav1.UpdateOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

// value reads the one key of a ConfigMap, or the error.
func value(o *Objects, pod *v1.Pod, name string) string {
	m, err := o.ConfigMap(context.Background(), pod, name)
	if err != nil {
		return "error: " + err.Error()
	}
	return m.Data["k"]
}
