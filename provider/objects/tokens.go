// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/provider/apierr"
)

const (
	// defaultTokenSeconds is how long a token is good for by default, in the API and so in the kubelet.
	defaultTokenSeconds = 3600
	// maxTokenSeconds is the longest life that the API lets a pod ask for.
	maxTokenSeconds = 1 << 32
	// maxTokenAge is the age at which the kubelet renews a token, however long it is good for.
	maxTokenAge = 24 * time.Hour
	// maxTokenJitter is how much earlier than needed, at most, the kubelet renews a token.
	maxTokenJitter = 10 * time.Second
	// tokenTimeout bounds one request.
	tokenTimeout = 10 * time.Second
	// firstTokenRetry and maxTokenRetry are the pauses after the first and after many failures to renew a token.
	firstTokenRetry, maxTokenRetry = time.Second, 30 * time.Second
)

// tokenKey is what makes a token another one.
type tokenKey struct {
	pod                               types.UID
	namespace, podName, account, aims string
	seconds                           int64
}

// token is one token of one pod. turn guards requests, the lock of tokens guards the rest.
type token struct {
	key tokenKey
	// turn holds a value while a request for the token is under way.
	turn chan struct{}

	value string
	// expires and renewAt are by our clock. renewAt is zero while there is no value.
	expires, renewAt time.Time
	// pause is the last one after a failure to renew, zero after a success.
	pause time.Duration
}

// tokens keep the tokens of pods and renew them.
type tokens struct {
	client  kubernetes.Interface
	changed func([]types.UID)
	clock   clock.Clock
	log     *slog.Logger
	metrics *metrics
	// jitter returns a random duration below its argument.
	jitter func(below time.Duration) time.Duration
	// news holds a value when a token was added.
	news chan struct{}

	mu   sync.Mutex
	kept map[tokenKey]*token
}

func newTokens(o Options, m *metrics) *tokens {
	return &tokens{
		client: o.Client, changed: o.Changed, clock: o.Clock, log: o.Logger, metrics: m,
		jitter: func(below time.Duration) time.Duration {
			return rand.N(below) //nolint:gosec // it spreads load and protects nothing.
		},
		news: make(chan struct{}, 1), kept: map[tokenKey]*token{},
	}
}

// get returns a token that is good now, an old one even if it is about to be renewed.
func (t *tokens) get(ctx context.Context, pod *v1.Pod, audience string, seconds int64) (string, error) {
	k := t.refer(tokenKey{
		pod: pod.UID, namespace: pod.Namespace, podName: pod.Name, account: pod.Spec.ServiceAccountName, aims: audience,
		seconds: cmp.Or(seconds, defaultTokenSeconds),
	})
	if value, good := t.good(k); good {
		return value, nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if value, good := t.good(k); good {
		return value, nil
	}
	if err := t.request(ctx, k); err != nil {
		return "", fmt.Errorf("failed to fetch token: %w", err)
	}
	select {
	case t.news <- struct{}{}:
	default:
	}
	value, _ := t.good(k)
	return value, nil
}

func (t *tokens) refer(key tokenKey) *token {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kept[key]
	if k == nil {
		k = &token{key: key, turn: make(chan struct{}, 1)}
		t.kept[key] = k
	}
	return k
}

func (t *tokens) good(k *token) (value string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return k.value, k.value != "" && t.clock.Now().Before(k.expires)
}

// request asks for a new value and keeps it. Call it with the token's turn.
func (t *tokens) request(ctx context.Context, k *token) error {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	want := &authv1.TokenRequest{Spec: authv1.TokenRequestSpec{
		ExpirationSeconds: &k.key.seconds,
		BoundObjectRef:    &authv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: k.key.podName, UID: k.key.pod},
	}}
	if k.key.aims != "" {
		want.Spec.Audiences = []string{k.key.aims}
	}
	// The life of the token is counted from before it began, by our own clock, which may differ from the API server's.
	began := t.clock.Now()
	got, err := t.client.CoreV1().ServiceAccounts(k.key.namespace).CreateToken(ctx, k.key.account, want, metav1.CreateOptions{})
	if err == nil && got.Status.Token == "" {
		err = errors.New("the API server answered without a token")
	}
	if err != nil {
		t.metrics.tokens.WithLabelValues("failed").Inc()
		return apierr.Classify(err)
	}
	t.metrics.tokens.WithLabelValues("granted").Inc()
	seconds := k.key.seconds
	if granted := got.Spec.ExpirationSeconds; granted != nil && *granted > 0 {
		seconds = *granted
	}
	life, age := lifeOf(seconds)
	age -= min(t.jitter(maxTokenJitter), age/4)
	t.mu.Lock()
	defer t.mu.Unlock()
	k.value, k.pause = got.Status.Token, 0
	k.expires, k.renewAt = began.Add(life), began.Add(age)
	return nil
}

// lifeOf returns how long a token of so many seconds is good for, and at what age it is renewed at the latest.
func lifeOf(seconds int64) (life, age time.Duration) {
	life = time.Duration(min(seconds, maxTokenSeconds)) * time.Second
	return life, min(life/10*8, maxTokenAge)
}

// run renews tokens when they are due, until ctx ends.
func (t *tokens) run(ctx context.Context) { renewWhenDue(ctx, t.clock, t.news, t.due, t.renew) }

// renewWhenDue renews what is due, until ctx ends. due returns that or, if there is nothing, how long it is until there may be
// something. It is asked again when there are news.
func renewWhenDue[T any](ctx context.Context, c clock.Clock, news <-chan struct{}, due func() ([]T, time.Duration), renew func(context.Context, T)) {
	for ctx.Err() == nil {
		now, wait := due()
		for _, item := range now {
			if ctx.Err() != nil {
				return
			}
			renew(ctx, item)
		}
		if len(now) > 0 {
			continue
		}
		timer := c.NewTimer(wait)
		select {
		case <-timer.C():
		case <-news:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// due returns the tokens to renew now or, if there is none, how long it is until there may be one.
func (t *tokens) due() (due []*token, wait time.Duration) {
	now := t.clock.Now()
	wait = maxTokenAge
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range t.kept {
		switch {
		case k.renewAt.IsZero():
		case !now.Before(k.renewAt):
			due = append(due, k)
		default:
			wait = min(wait, k.renewAt.Sub(now))
		}
	}
	return due, wait
}

// renew gets a new value of a token and tells its pod. After a failure it is due again after a pause.
func (t *tokens) renew(ctx context.Context, k *token) {
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return
	}
	err := t.request(ctx, k)
	if err == nil {
		t.changed([]types.UID{k.key.pod})
		return
	}
	if ctx.Err() != nil {
		return
	}
	t.log.Warn("renewing a token of a pod", "pod", k.key.namespace+"/"+k.key.podName, "uid", k.key.pod, "account", k.key.account, "error", err)
	t.mu.Lock()
	defer t.mu.Unlock()
	k.pause = min(max(2*k.pause, firstTokenRetry), maxTokenRetry)
	k.renewAt = t.clock.Now().Add(k.pause + t.jitter(k.pause))
}

// forget drops the tokens of a pod.
func (t *tokens) forget(uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key := range t.kept {
		if key.pod == uid {
			delete(t.kept, key)
		}
	}
}
