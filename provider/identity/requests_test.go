// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"context"
	"crypto"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"
)

// asker asks by way of requests, from an API that gives names and UIDs.
type asker struct {
	*testing.T
	requests *requests
	api      *fake.Clientset
	client   kubernetes.Interface
	log      bytes.Buffer
	events   []string
}

func newAsker(t *testing.T) *asker {
	a := &asker{T: t, api: fake.NewClientset()}
	made := 0
	a.api.PrependReactor("create", "certificatesigningrequests", func(action clienttesting.Action) (bool, runtime.Object, error) {
		request := action.(clienttesting.CreateAction).GetObject().(*certificatesv1.CertificateSigningRequest)
		made++
		request.Name, request.UID = fmt.Sprintf("%s%d", request.GenerateName, made), types.UID(fmt.Sprint(made))
		return false, nil, nil
	})
	a.requests = newRequests("tombolo-edge-1-client-", "client certificate", clock.RealClock{}, slog.New(slog.NewTextHandler(&a.log, nil)))
	a.requests.reportTo(func(kind, reason, message string) { a.events = append(a.events, kind+" "+reason+" "+message) })
	a.client = a.requests.through(a.api)
	return a
}

// ask does what a certificate manager does for one request.
func (a *asker) ask(ctx context.Context) (name string, key crypto.Signer, err error) {
	if key, err = a.requests.signer(); err != nil {
		return "", nil, err
	}
	made, err := a.client.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		Spec: certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", nil, err
	}
	return made.Name, key, nil
}

func (a *asker) mustAsk() (name string, key crypto.Signer) {
	a.Helper()
	name, key, err := a.ask(a.Context())
	if err != nil {
		a.Fatal(err)
	}
	return name, key
}

// answer gives a request a condition.
func (a *asker) answer(name string, condition certificatesv1.RequestConditionType) {
	a.Helper()
	requests := a.api.CertificatesV1().CertificateSigningRequests()
	request, err := requests.Get(a.Context(), name, metav1.GetOptions{})
	if err != nil {
		a.Fatal(err)
	}
	request.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{
		Type: condition, Status: v1.ConditionTrue, Reason: "Auditor", Message: "who are you",
	}}
	if _, err := requests.UpdateApproval(a.Context(), name, request, metav1.UpdateOptions{}); err != nil {
		a.Fatal(err)
	}
}

func TestARequestStaysTheSameUntilItIsAnswered(t *testing.T) {
	a := newAsker(t)
	first, key := a.mustAsk()
	again, sameKey := a.mustAsk()
	if first != "tombolo-edge-1-client-1" || again != first || sameKey != key {
		t.Errorf("asked as %q and %q (same key: %v), want the first request again: its approval would be lost", first, again, sameKey == key)
	}
	a.requests.answered()
	if a.requests.why() != nil {
		t.Errorf("after the answer: %v", a.requests.why())
	}
	if next, nextKey := a.mustAsk(); next == first || nextKey == key {
		t.Errorf("the renewal asks as %q with the same key: %v, want a new request with a new key", next, nextKey == key)
	}
}

func TestARequestThatIsGoneIsMadeAnew(t *testing.T) {
	a := newAsker(t)
	first, _ := a.mustAsk()
	if err := a.api.CertificatesV1().CertificateSigningRequests().Delete(t.Context(), first, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next, key := a.mustAsk()
	if next == first {
		t.Errorf("still %s", next)
	}
	a.wantKept(next, key)
}

// wantKept says whether a request that nobody has answered yet is still the one, with the key that it was made with: a
// certificate manager that gave up waiting comes with a key that it asked for anew.
func (a *asker) wantKept(name string, key crypto.Signer) {
	a.Helper()
	if again, sameKey := a.mustAsk(); again != name || sameKey != key {
		a.Errorf("asked as %s and then as %s (same key: %v): the certificate of the first would be of no use", name, again, sameKey == key)
	}
}

func TestARequestThatWaitsIsToldWithItsRemedyFromTimeToTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t)
		name, _ := a.mustAsk()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { a.requests.follow(ctx); close(done) }()
		time.Sleep(11 * time.Minute)
		cancel()
		<-done
		remedy := "kubectl certificate approve " + name
		if err := a.requests.why(); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("why: %v, want the remedy %q", err, remedy)
		}
		if got := strings.Count(a.log.String(), remedy); got != 3 {
			t.Errorf("%d lines in 11 minutes, want 3:\n%s", got, a.log.String())
		}
		if len(a.events) != 3 || !strings.HasPrefix(a.events[0], "Warning CertificateWaiting No client certificate yet: ") || !strings.Contains(a.events[0], remedy) {
			t.Errorf("events %q", a.events)
		}
	})
}

func TestAnApprovedRequestThatNobodySignsIsTold(t *testing.T) {
	a := newAsker(t)
	name, _ := a.mustAsk()
	a.answer(name, certificatesv1.CertificateApproved)
	a.requests.look(t.Context())
	if err := a.requests.why(); err == nil || !strings.Contains(err.Error(), "nobody has signed it") {
		t.Errorf("why: %v", err)
	}
}

func TestAfterADenialNothingIsAskedForAWhile(t *testing.T) {
	for _, condition := range []certificatesv1.RequestConditionType{certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		synctest.Test(t, func(t *testing.T) {
			a := newAsker(t)
			first, _ := a.mustAsk()
			a.answer(first, condition)
			begin := time.Now()
			next, nextKey := a.mustAsk()
			if waited := time.Since(begin); waited != refusedPause || next == first {
				t.Errorf("%s: asked again as %s after %v, want another request after %v", condition, next, waited, refusedPause)
			}
			a.wantKept(next, nextKey)
			if len(a.events) != 1 || !strings.Contains(a.events[0], "CertificateRefused") || !strings.Contains(a.events[0], "who are you") {
				t.Errorf("%s: events %q, want one with the reason", condition, a.events)
			}
			a.requests.answered()
			if _, renewed := a.mustAsk(); renewed == nextKey {
				t.Errorf("%s: the key of a refused request lives on", condition)
			}
		})
	}
}

func TestTheEndIsNotHeldUpByADenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAsker(t)
		first, _ := a.mustAsk()
		a.answer(first, certificatesv1.CertificateDenied)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if name, _, err := a.ask(ctx); err == nil {
			t.Errorf("asked as %s", name)
		}
	})
}
