// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/provider/apierr"
)

const (
	// abandonTime is after how long the kubelet takes a request that cannot be seen for deleted.
	abandonTime = 10 * time.Minute
	// certificateTimeout bounds the requests of one attempt.
	certificateTimeout = 10 * time.Second
)

// podCertificates ask signers for certificates of pods, and again before those expire. Keys are kept in memory only: after a restart
// there are new ones.
type podCertificates struct {
	client  kubernetes.Interface
	node    string
	changed func([]types.UID)
	event   func(pod *v1.Pod, reason, message string)
	clock   clock.Clock
	log     *slog.Logger
	// jitter returns a random duration below its argument.
	jitter func(below time.Duration) time.Duration
	// wanted is closed at the first read. news holds a value when something may be due.
	wanted, news chan struct{}
	requests     cache.Store
	controller   cache.Controller

	mu   sync.Mutex
	kept map[certificateKey]*certificate
}

func newPodCertificates(o Options) *podCertificates {
	c := &podCertificates{
		client: o.Client, node: o.Node, changed: o.Changed, event: o.Event, clock: o.Clock, log: o.Logger,
		jitter: func(below time.Duration) time.Duration {
			return rand.N(max(1, below)) //nolint:gosec // it spreads load and protects nothing.
		},
		wanted: make(chan struct{}), news: make(chan struct{}, 1), kept: map[certificateKey]*certificate{},
	}
	ours := fields.OneTermEqualSelector("spec.nodeName", o.Node).String()
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			opts.FieldSelector = ours
			return o.Client.CertificatesV1().PodCertificateRequests("").List(ctx, opts)
		},
		WatchFuncWithContext: func(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
			opts.FieldSelector = ours
			return o.Client.CertificatesV1().PodCertificateRequests("").Watch(ctx, opts)
		},
	}, o.Client)
	c.requests, c.controller = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw, ObjectType: &certificatesv1.PodCertificateRequest{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: c.saw, UpdateFunc: func(_, obj any) { c.saw(obj) }, DeleteFunc: c.gone,
		},
	})
	return c
}

// run watches requests from the first read on, and asks anew when that is due, until ctx ends.
func (c *podCertificates) run(ctx context.Context) {
	select {
	case <-c.wanted:
	case <-ctx.Done():
		return
	}
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { c.controller.RunWithContext(ctx) })
	renewWhenDue(ctx, c.clock, c.news, c.due, c.ask)
}

// get returns the key and the certificates of a source of a volume. The first time it waits for the signer, for a bounded time.
func (c *podCertificates) get(ctx context.Context, pod *v1.Pod, volume string, source int, want *v1.PodCertificateProjection) (key, chain []byte, err error) {
	k := c.refer(certificateKey{pod: pod.UID, volume: volume, source: source}, pod, want)
	if key, chain, err = c.current(k); key != nil || !errors.Is(err, errNotIssued) {
		return key, chain, err
	}
	c.ask(ctx, k)
	if err := await(ctx, c.clock, k.answered); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.private == nil && k.refusal == nil && k.failure != nil {
		return nil, nil, k.failure
	}
	return k.private, k.chain, k.problem()
}

func (c *podCertificates) refer(key certificateKey, pod *v1.Pod, want *v1.PodCertificateProjection) *certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.wanted:
	default:
		close(c.wanted)
	}
	k := c.kept[key]
	if k == nil {
		k = &certificate{turn: make(chan struct{}, 1), answered: make(chan struct{})}
		c.kept[key] = k
	}
	k.pod, k.want = pod, want
	return k
}

func (c *podCertificates) current(k *certificate) (key, chain []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return k.private, k.chain, k.problem()
}

// ask makes a request unless there is one. After a failure it is due again after a pause.
func (c *podCertificates) ask(ctx context.Context, k *certificate) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return
	}
	c.mu.Lock()
	pod, want, needless := k.pod, k.want, k.asked != nil || k.refusal != nil || c.clock.Now().Before(k.retryAt)
	c.mu.Unlock()
	if needless {
		return
	}
	asked, err := c.request(ctx, pod, want)
	if ctx.Err() != nil && err != nil {
		return
	}
	c.mu.Lock()
	k.asked, k.failure = asked, err
	if err == nil {
		k.pause, k.retryAt = 0, time.Time{}
	} else {
		k.pause = min(max(2*k.pause, firstTokenRetry), maxTokenRetry)
		k.retryAt = c.clock.Now().Add(k.pause)
	}
	c.mu.Unlock()
	c.wake()
	if err != nil {
		c.log.Warn("asking for a certificate of a pod", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "signer", want.SignerName, "error", err)
		return
	}
	if obj, found, _ := c.requests.GetByKey(asked.name.String()); found {
		c.saw(obj) // it came before we knew its name
	}
}

// request makes a key and a PodCertificateRequest for it.
func (c *podCertificates) request(ctx context.Context, pod *v1.Pod, want *v1.PodCertificateProjection) (*request, error) {
	ctx, cancel := context.WithTimeout(ctx, certificateTimeout)
	defer cancel()
	account, err := c.client.CoreV1().ServiceAccounts(pod.Namespace).Get(ctx, pod.Spec.ServiceAccountName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("while fetching service account: %w", apierr.Classify(err))
	}
	node, err := c.client.CoreV1().Nodes().Get(ctx, c.node, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("while getting node: %w", apierr.Classify(err))
	}
	private, proof, err := newKey(want.KeyType)
	if err != nil {
		return nil, fmt.Errorf("while generating keypair: %w", err)
	}
	made, err := c.client.CertificatesV1().PodCertificateRequests(pod.Namespace).Create(ctx, &certificatesv1.PodCertificateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, GenerateName: "req-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
		},
		Spec: certificatesv1.PodCertificateRequestSpec{
			SignerName: want.SignerName, PodName: pod.Name, PodUID: pod.UID,
			ServiceAccountName: pod.Spec.ServiceAccountName, ServiceAccountUID: account.UID,
			NodeName: types.NodeName(c.node), NodeUID: node.UID, MaxExpirationSeconds: want.MaxExpirationSeconds,
			StubPKCS10Request: proof, UnverifiedUserAnnotations: want.UserAnnotations,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("while creating PodCertificateRequest: %w", apierr.Classify(err))
	}
	return &request{
		name: types.NamespacedName{Namespace: made.Namespace, Name: made.Name}, private: private, abandonAt: c.clock.Now().Add(abandonTime),
	}, nil
}

// saw takes a request that may have been answered.
func (c *podCertificates) saw(obj any) {
	answer, ok := obj.(*certificatesv1.PodCertificateRequest)
	if !ok {
		return
	}
	c.mu.Lock()
	k := c.waiting(types.NamespacedName{Namespace: answer.Namespace, Name: answer.Name})
	if k == nil || !k.take(answer, c.clock.Now(), c.jitter) {
		c.mu.Unlock()
		return
	}
	pod, refusal := k.pod, k.refusal
	c.mu.Unlock()
	if refusal != nil {
		c.event(pod, refusalReason(answer), refusal.Error())
	}
	c.changed([]types.UID{pod.UID})
	c.wake()
}

// waiting returns whose request that is, nil if nobody waits for it. Call it with the lock held.
func (c *podCertificates) waiting(name types.NamespacedName) *certificate {
	for _, k := range c.kept {
		if k.asked != nil && k.asked.name == name {
			return k
		}
	}
	return nil
}

// gone takes it that a request was deleted. One that was not answered is made again.
func (c *podCertificates) gone(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	if deleted, ok := obj.(*certificatesv1.PodCertificateRequest); ok {
		c.abandon(types.NamespacedName{Namespace: deleted.Namespace, Name: deleted.Name})
	}
}

// abandon gives a request up. Whoever has no certificate yet is told to ask again.
func (c *podCertificates) abandon(name types.NamespacedName) {
	c.mu.Lock()
	k := c.waiting(name)
	if k != nil {
		k.asked, k.retryAt = nil, c.clock.Now().Add(firstTokenRetry)
	}
	c.mu.Unlock()
	if k != nil {
		c.wake()
	}
}

// due returns whose certificates to ask for now or, if there is none, how long it is until there may be one. It tells of
// certificates that are late.
func (c *podCertificates) due() (due []*certificate, wait time.Duration) {
	now := c.clock.Now()
	wait = abandonTime
	var events []func()
	c.mu.Lock()
	for _, k := range c.kept {
		events = append(events, k.lateness(now, c.event)...)
		if k.refusal != nil {
			continue
		}
		for _, at := range k.times() {
			if at.After(now) {
				wait = min(wait, at.Sub(now))
			}
		}
		if k.asked != nil && !now.Before(k.asked.abandonAt) {
			if _, found, _ := c.requests.GetByKey(k.asked.name.String()); found {
				k.asked.abandonAt = now.Add(abandonTime)
			} else {
				k.asked, k.retryAt = nil, now
			}
		}
		// The first request is made by whoever wants the certificate, the next one here.
		wanted := !now.Before(k.renewAt) && !now.Before(k.retryAt)
		if k.asked == nil && wanted && (k.private != nil || !k.retryAt.IsZero()) {
			due = append(due, k)
		}
	}
	c.mu.Unlock()
	for _, tell := range events {
		tell()
	}
	return due, wait
}

func (c *podCertificates) wake() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// forget drops the keys of a pod.
func (c *podCertificates) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key := range c.kept {
		if key.pod == uid {
			delete(c.kept, key)
		}
	}
}
