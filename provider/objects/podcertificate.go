// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// overdueTime is how late the kubelet lets a new certificate be before it says so.
	overdueTime = 10 * time.Minute
	// minCertificateAge is how long a certificate is used at least. The API sees to far more, by the signer's clock: one that
	// differs from ours by more than a certificate's life must not lead to one request after the other.
	minCertificateAge = time.Minute
	// maxCertificateJitter is how much later than it could, at most, the kubelet asks for a new certificate.
	maxCertificateJitter = 5 * time.Minute
)

// Reasons of events, the kubelet's.
const (
	reasonOverdue = "CertificateOverdueForRefresh"
	reasonExpired = "CertificateExpired"
)

// errNotIssued is the kubelet's.
var errNotIssued = &waitError{text: "credential bundle is not issued yet", class: errdefs.ErrUnavailable}

// certificateKey names one source of one volume of a pod.
type certificateKey struct {
	pod    types.UID
	volume string
	source int
}

// certificate is a key of a pod and what a signer says of it. turn guards requests, the lock of podCertificates guards the rest.
type certificate struct {
	pod  *v1.Pod
	want *v1.PodCertificateProjection
	// turn holds a value while a request is being made.
	turn chan struct{}

	// private and chain are what the pod has, nil before the first answer. renewAt and notAfter say until when that will do.
	private, chain    []byte
	renewAt, notAfter time.Time
	// asked is the request that was not answered yet, nil if there is none.
	asked *request
	// refusal is why there will be no certificate any more, failure why the last request could not be made.
	refusal, failure error
	// answered is closed when the first request was answered.
	answered chan struct{}
	// retryAt is when to ask again after a failure, and pause how long that was.
	retryAt time.Time
	pause   time.Duration
	// overdue and expired say that this was told.
	overdue, expired bool
}

// request is a PodCertificateRequest and the key it is for.
type request struct {
	name      types.NamespacedName
	private   []byte
	abandonAt time.Time
}

// problem is what is wrong with a certificate.
func (k *certificate) problem() error {
	switch {
	case k.refusal != nil:
		return k.refusal
	case k.private == nil:
		return errNotIssued
	default:
		return nil
	}
}

// take takes an answer over and says whether it is one. jitter returns a random duration below its argument.
func (k *certificate) take(answer *certificatesv1.PodCertificateRequest, now time.Time, jitter func(time.Duration) time.Duration) bool {
	name, s := k.asked.name.String(), answer.Status
	for _, condition := range s.Conditions {
		switch condition.Type {
		case certificatesv1.PodCertificateRequestConditionTypeDenied:
			k.refusal = fmt.Errorf("PodCertificateRequest %s was permanently denied: reason=%q message=%q: %w", name, condition.Reason, condition.Message, errdefs.ErrPermissionDenied)
		case certificatesv1.PodCertificateRequestConditionTypeFailed:
			k.refusal = fmt.Errorf("PodCertificateRequest %s was permanently failed: reason=%q message=%q: %w", name, condition.Reason, condition.Message, errdefs.ErrFailedPrecondition)
		case certificatesv1.PodCertificateRequestConditionTypeIssued:
			if s.BeginRefreshAt == nil || s.NotAfter == nil {
				continue // the API does not allow it
			}
			life := s.NotAfter.Sub(s.BeginRefreshAt.Time)
			k.private, k.chain = k.asked.private, certificatesOnly(s.CertificateChain)
			k.renewAt, k.notAfter = s.BeginRefreshAt.Add(jitter(min(maxCertificateJitter, max(1, life/4)))), s.NotAfter.Time
			if soonest := now.Add(minCertificateAge); k.renewAt.Before(soonest) {
				k.renewAt = soonest
			}
			k.overdue, k.expired = false, false
		default:
			continue
		}
		k.asked = nil
		select {
		case <-k.answered:
		default:
			close(k.answered)
		}
		return true
	}
	return false
}

func refusalReason(answer *certificatesv1.PodCertificateRequest) string {
	for _, condition := range answer.Status.Conditions {
		if condition.Type == certificatesv1.PodCertificateRequestConditionTypeDenied {
			return condition.Type
		}
	}
	return certificatesv1.PodCertificateRequestConditionTypeFailed
}

// times are when something of a certificate may be due.
func (k *certificate) times() []time.Time {
	times := []time.Time{k.renewAt, k.retryAt, k.renewAt.Add(overdueTime), k.notAfter}
	if k.asked != nil {
		times = append(times, k.asked.abandonAt)
	}
	return times
}

// lateness returns what tells that a certificate is late, each once.
func (k *certificate) lateness(now time.Time, event func(*v1.Pod, string, string)) []func() {
	if k.private == nil {
		return nil
	}
	var tell []func()
	pod := k.pod
	if !k.overdue && now.After(k.renewAt.Add(overdueTime)) {
		k.overdue = true
		tell = append(tell, func() { event(pod, reasonOverdue, "PodCertificate refresh overdue") })
	}
	if !k.expired && now.After(k.notAfter) {
		k.expired = true
		tell = append(tell, func() { event(pod, reasonExpired, "PodCertificate expired") })
	}
	return tell
}
