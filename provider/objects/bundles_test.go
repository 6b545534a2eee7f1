// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"testing"
	"time"

	"github.com/containerd/errdefs"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

func trustBundle(name, signer string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"of": signer}},
		Spec: certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: "v1"}}
}

func TestTrustBundlesAreWatchedFromTheFirstReadAndTellWhoReadThem(t *testing.T) {
	inBubble(t, []runtime.Object{trustBundle("x:1", "x"), trustBundle("x:2", "x"), trustBundle("plain", "")}, func(t *testing.T, a *api, o *Objects) {
		if n := a.watched("clustertrustbundles"); n != 0 {
			t.Errorf("%d watches before the first read", n)
		}
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a"}}
		if b, err := o.TrustBundle(t.Context(), pod, "plain"); err != nil || b.Spec.TrustBundle != "v1" {
			t.Errorf("got %v, %v", b, err)
		}
		if _, err := o.TrustBundle(t.Context(), pod, "none"); !errdefs.IsNotFound(err) ||
			err.Error() != `clustertrustbundle.certificates.k8s.io "none" not found` {
			t.Errorf("got %v", err)
		}
		list, err := o.TrustBundles(t.Context(), pod, "x", labels.SelectorFromSet(labels.Set{"of": "x"}))
		if err != nil || len(list) != 2 || list[0].Name != "x:1" || list[1].Name != "x:2" {
			t.Errorf("got %v, %v", list, err)
		}
		if list, err := o.TrustBundles(t.Context(), pod, "x", labels.Nothing()); err != nil || len(list) > 0 {
			t.Errorf("got %v, %v", list, err)
		}
		a.news()
		api := a.client.CertificatesV1().ClusterTrustBundles()
		changed := trustBundle("plain", "")
		changed.Spec.TrustBundle = "v2"
		if _, err := api.Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if told := a.news(); told != "a" {
			t.Errorf("told %q of a change", told)
		}
		if b, err := o.TrustBundle(t.Context(), pod, "plain"); err != nil || b.Spec.TrustBundle != "v2" {
			t.Errorf("got %v, %v", b, err)
		}
		o.Forget("a")
		if err := api.Delete(t.Context(), "x:1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if told := a.news(); told != "" {
			t.Errorf("told %q after they were forgotten", told)
		}
	})
}

func TestTrustBundlesThatWereNeverReadAreAnErrorInTheKubeletsWords(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *api, o *Objects) {
		a.fail(errdefs.ErrUnavailable)
		begin := time.Now()
		_, err := o.TrustBundle(t.Context(), &v1.Pod{}, "x")
		if !errdefs.IsUnavailable(err) || time.Since(begin) != firstAnswer || err.Error() != "ClusterTrustBundle informer has not yet synced" {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	})
}
