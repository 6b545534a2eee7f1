// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/utils/clock"
)

const (
	// refusedPause is how long nothing is asked after a request was denied or failed. Who denies must be able to look into it,
	// and who changes their mind should not wait for long.
	refusedPause = 5 * time.Minute
	// followPeriod is how often a request that is under way is looked at, to tell of it. Those that somebody's controller
	// approves are answered before the first look.
	followPeriod = 5 * time.Second
	// reminderPeriod is how often a request that waits is told of again.
	reminderPeriod = 5 * time.Minute
	// lookTimeout bounds one look.
	lookTimeout = 10 * time.Second
)

// Reasons of events about certificates. The kubelet has none.
const (
	// ReasonWaiting is of a certificate signing request that nobody has approved or signed yet.
	ReasonWaiting = "CertificateWaiting"
	// ReasonRefused is of one that was denied or failed.
	ReasonRefused = "CertificateRefused"
)

// requests makes the certificate signing requests of one certificate manager: one at a time, each kept until it is
// answered.
type requests struct {
	// prefix begins the requests' names, and what names the certificate in messages.
	prefix, what string
	clock        clock.WithTicker
	logger       *slog.Logger

	mu     sync.Mutex
	report func(kind, reason, message string)
	client certificatesclient.CertificateSigningRequestInterface // that asked last, nil before
	key    crypto.Signer                                         // of the request under way, or of the next one
	name   string                                                // of the request under way, "" if there is none
	uid    types.UID
	// refusedAt is when a denial was seen.
	refusedAt time.Time
	// state is what is to be said of the certificate that is not there, told when it was said.
	state error
	told  time.Time
}

// errAsking is the state before anything was heard.
var errAsking = errors.New("no certificate was issued yet")

func newRequests(prefix, what string, clk clock.WithTicker, logger *slog.Logger) *requests {
	return &requests{prefix: prefix, what: what, clock: clk, logger: logger, state: errAsking}
}

// signer returns the key for the next request: the same one until there is a certificate for it. A certificate manager that
// has waited for a while makes a new request, and an approval of the old one would be lost.
func (r *requests) signer() (crypto.Signer, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.key != nil {
		return r.key, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	r.key = key
	return key, nil
}

// answered forgets the request: its certificate is there.
func (r *requests) answered() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key, r.name, r.refusedAt, r.state, r.told = nil, "", time.Time{}, nil, time.Time{}
}

// why says why there is no certificate, nil if one was issued.
func (r *requests) why() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// reportTo makes report hear of requests that wait or were refused, as an event of the node would.
func (r *requests) reportTo(report func(kind, reason, message string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report = report
}

// create makes a request, or returns the one under way.
func (r *requests) create(ctx context.Context, client certificatesclient.CertificateSigningRequestInterface, request *certificatesv1.CertificateSigningRequest, opts metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	r.mu.Lock()
	name, uid := r.name, r.uid
	r.client = client
	r.mu.Unlock()
	if name != "" {
		current, err := client.Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			r.drop(name, time.Time{})
		case err != nil:
			return nil, r.failed(fmt.Errorf("reading certificate signing request %s: %w", name, err))
		case current.UID != uid:
			r.drop(name, time.Time{})
		case refusal(current) == nil:
			return current, nil
		default:
			r.tell(current)
			r.drop(name, r.clock.Now())
		}
	}
	if err := r.pause(ctx); err != nil {
		return nil, err
	}
	request.GenerateName = r.prefix
	made, err := client.Create(ctx, request, opts)
	if err != nil {
		return nil, r.failed(fmt.Errorf("making a certificate signing request: %w", err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.name, r.uid, r.refusedAt, r.told = made.Name, made.UID, time.Time{}, time.Time{}
	r.state = fmt.Errorf("certificate signing request %s was made", made.Name)
	return made, nil
}

// drop forgets a request that will not be answered any more. Its key is that of the next one, which is made with it at once.
func (r *requests) drop(name string, refusedAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.name == name {
		r.name, r.refusedAt = "", refusedAt
	}
}

// pause waits until a refusal is so long ago that something may be asked again.
func (r *requests) pause(ctx context.Context) error {
	r.mu.Lock()
	refusedAt := r.refusedAt
	r.mu.Unlock()
	if refusedAt.IsZero() {
		return nil
	}
	timer := r.clock.NewTimer(refusedPause - r.clock.Since(refusedAt))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}

// failed remembers an error of the API. The certificate manager logs it.
func (r *requests) failed(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state = err
	return err
}

// follow looks at the request under way from time to time and tells of it, until ctx ends.
func (r *requests) follow(ctx context.Context) {
	ticker := r.clock.NewTicker(followPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			r.look(ctx)
		}
	}
}

func (r *requests) look(ctx context.Context) {
	r.mu.Lock()
	client, name, uid := r.client, r.name, r.uid
	r.mu.Unlock()
	if name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	current, err := client.Get(ctx, name, metav1.GetOptions{})
	if err != nil || current.UID != uid || len(current.Status.Certificate) > 0 {
		return // the manager finds out by its own watch
	}
	r.tell(current)
}

// tell says what a request waits for, or why it was refused, if that was not said lately.
func (r *requests) tell(request *certificatesv1.CertificateSigningRequest) {
	reason, err := ReasonWaiting, refusal(request)
	if err != nil {
		reason = ReasonRefused
	} else {
		err = waiting(request)
	}
	r.mu.Lock()
	if r.name != request.Name {
		r.mu.Unlock()
		return // it was answered meanwhile
	}
	again := r.state == nil || r.state.Error() != err.Error() || r.clock.Since(r.told) >= reminderPeriod
	r.state = err
	if again {
		r.told = r.clock.Now()
	}
	report := r.report
	r.mu.Unlock()
	if !again {
		return
	}
	r.logger.Warn("There is no certificate yet", "for", r.what, "reason", reason, "error", err)
	if report != nil {
		report(v1.EventTypeWarning, reason, "No "+r.what+" yet: "+err.Error())
	}
}

// refusal is why a request will never be answered with a certificate, nil if it may.
func refusal(request *certificatesv1.CertificateSigningRequest) error {
	for _, c := range request.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateDenied:
			return fmt.Errorf("certificate signing request %s was denied (%s: %s); another one is made after %v, or when the process is started again",
				request.Name, c.Reason, c.Message, refusedPause)
		case certificatesv1.CertificateFailed:
			return fmt.Errorf("the signer %s failed to sign certificate signing request %s (%s: %s); another one is made after %v",
				request.Spec.SignerName, request.Name, c.Reason, c.Message, refusedPause)
		}
	}
	return nil
}

// waiting is what a request waits for, with the remedy.
func waiting(request *certificatesv1.CertificateSigningRequest) error {
	for _, c := range request.Status.Conditions {
		if c.Type == certificatesv1.CertificateApproved {
			return fmt.Errorf("certificate signing request %s is approved, but nobody has signed it: see whether this cluster has a signer %s (kube-controller-manager is one if it has --cluster-signing-cert-file)",
				request.Name, request.Spec.SignerName)
		}
	}
	return fmt.Errorf("certificate signing request %s waits for approval: kubectl certificate approve %s", request.Name, request.Name)
}

// through returns a client whose certificate signing requests go through r.
func (r *requests) through(client kubernetes.Interface) kubernetes.Interface {
	return clientset{Interface: client, requests: r}
}

// clientset is a client of the API but for making certificate signing requests.
type clientset struct {
	kubernetes.Interface
	requests *requests
}

// CertificatesV1 is the API group of the requests.
func (c clientset) CertificatesV1() certificatesclient.CertificatesV1Interface {
	return group{CertificatesV1Interface: c.Interface.CertificatesV1(), requests: c.requests}
}

type group struct {
	certificatesclient.CertificatesV1Interface
	requests *requests
}

// CertificateSigningRequests are the requests.
func (g group) CertificateSigningRequests() certificatesclient.CertificateSigningRequestInterface {
	return maker{CertificateSigningRequestInterface: g.CertificatesV1Interface.CertificateSigningRequests(), requests: g.requests}
}

type maker struct {
	certificatesclient.CertificateSigningRequestInterface
	requests *requests
}

// Create makes a request, or returns the one under way.
func (m maker) Create(ctx context.Context, request *certificatesv1.CertificateSigningRequest, opts metav1.CreateOptions) (*certificatesv1.CertificateSigningRequest, error) {
	return m.requests.create(ctx, m.CertificateSigningRequestInterface, request, opts)
}
