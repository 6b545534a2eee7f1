// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/lifecycle"
)

// firstAnswer bounds how long a read waits for the first answer of the API. It is longer than the kubelet's second, because
// for about as long the Node authorizer may not know yet that a new pod refers to the object.
const firstAnswer = 3 * time.Second

// Options are what Objects are made of.
type Options struct {
	// Client reads objects and requests tokens, as the node.
	Client kubernetes.Interface
	// Node is the node's name.
	Node string
	// Changed is told the pods that read an object which changed, appeared or went away since, or whose token or certificate was
	// renewed. It must not block.
	Changed func(pods []types.UID)
	// Event tells of a warning about a pod, without blocking. It may be nil.
	Event func(pod *v1.Pod, reason, message string)
	Clock clock.WithTicker
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// Objects reads what pods of one node refer to. See the package documentation.
type Objects struct {
	client     kubernetes.Interface
	configMaps *watches[*v1.ConfigMap]
	secrets    *watches[*v1.Secret]
	services   *services
	bundles    *bundles
	tokens     *tokens
	keys       *podCertificates
}

var _ lifecycle.Objects = (*Objects)(nil)

// New makes Objects. They do nothing before Run.
func New(o Options) *Objects {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Event == nil {
		o.Event = func(*v1.Pod, string, string) {}
	}
	metrics := newMetrics(o.Registerer)
	return &Objects{
		client:     o.Client,
		configMaps: newWatches(o, configMapsOf(o.Client), metrics),
		secrets:    newWatches(o, secretsOf(o.Client), metrics),
		services:   newServices(o),
		bundles:    newBundles(o),
		tokens:     newTokens(o, metrics),
		keys:       newPodCertificates(o),
	}
}

// Run watches and renews until ctx ends. It is called once.
func (o *Objects) Run(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	for _, run := range []func(context.Context){o.configMaps.run, o.secrets.run, o.services.run, o.bundles.run, o.tokens.run, o.keys.run} {
		parts.Go(func() { run(ctx) })
	}
}

// ConfigMap returns a ConfigMap of the pod's namespace, as last known. The error is NotFound, with the kubelet's text, if
// the API said that there is none; any other, but that of ctx, says that the API could not be asked or did not allow it.
func (o *Objects) ConfigMap(ctx context.Context, pod *v1.Pod, name string) (*v1.ConfigMap, error) {
	return o.configMaps.get(ctx, pod, name)
}

// Secret returns a Secret of the pod's namespace in the way of ConfigMap.
func (o *Objects) Secret(ctx context.Context, pod *v1.Pod, name string) (*v1.Secret, error) {
	return o.secrets.get(ctx, pod, name)
}

// Services returns the Services of a namespace, without what no pod is told of them. The error is Unavailable, with the
// kubelet's text, as long as they were never read.
func (o *Objects) Services(ctx context.Context, namespace string) ([]*v1.Service, error) {
	return o.services.in(ctx, namespace)
}

// Token returns a token of the pod's service account that is good for the audience, or for the API server itself if that
// is empty, and for the given time, an hour if that is zero. It is bound to the pod. A token that was given out is renewed
// in time and given out again until it expires. The error has the class of the API's answer.
func (o *Objects) Token(ctx context.Context, pod *v1.Pod, audience string, expirationSeconds int64) (string, error) {
	return o.tokens.get(ctx, pod, audience, expirationSeconds)
}

// PodCertificate returns the private key and the certificates, both in PEM, of one source of one projected volume of the pod. The signer
// is asked for them at the first call, and again before they expire; old ones are given out until then. A refusal of the signer is final.
// Any other error says that there is none yet.
func (o *Objects) PodCertificate(ctx context.Context, pod *v1.Pod, volume string, source int, want *v1.PodCertificateProjection) (key, chain []byte, err error) {
	return o.keys.get(ctx, pod, volume, source, want)
}

// TrustBundle returns a ClusterTrustBundle, in the way of ConfigMap.
func (o *Objects) TrustBundle(ctx context.Context, pod *v1.Pod, name string) (*certificatesv1.ClusterTrustBundle, error) {
	return o.bundles.named(ctx, pod, name)
}

// TrustBundles returns the ClusterTrustBundles of a signer that have the labels, sorted by name; none is no error.
func (o *Objects) TrustBundles(ctx context.Context, pod *v1.Pod, signer string, wanted labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	return o.bundles.signedBy(ctx, pod, signer, wanted)
}

// Forget drops what is kept for a pod that has ended. Nothing is read for it any more.
func (o *Objects) Forget(uid types.UID) {
	o.configMaps.forget(uid)
	o.secrets.forget(uid)
	o.bundles.forget(uid)
	o.tokens.forget(uid)
	o.keys.forget(uid)
}

// waitError says that the API gave no answer in time.
type waitError struct {
	text  string
	class error
}

// Error returns the kubelet's text.
func (e *waitError) Error() string { return e.text }

// Unwrap returns the class.
func (e *waitError) Unwrap() error { return e.class }

// await waits until done is closed, but no longer than for the first answer of the API. The error is that of ctx.
func await(ctx context.Context, c clock.Clock, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	timer := c.NewTimer(firstAnswer)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
