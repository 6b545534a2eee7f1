// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
)

var errAway = &url.Error{Op: "Get", URL: "https://api", Err: syscall.ECONNREFUSED}

func TestPodsShareOneWatchUntilTheLastIsForgotten(t *testing.T) {
	inBubble(t, []runtime.Object{configMap("m", "1")}, func(t *testing.T, a *api, o *Objects) {
		for _, uid := range []string{"a", "b"} {
			if got := value(o, podOf(uid), "m"); got != "1" {
				t.Fatalf("pod %s read %q, want 1", uid, got)
			}
		}
		if lists, watches := a.lists["configmaps"], a.watched("configmaps"); lists != 1 || watches != 1 {
			t.Errorf("%d lists and %d watches, want one of each", lists, watches)
		}
		o.Forget("a")
		if got := a.watched("configmaps"); got != 1 {
			t.Errorf("%d watches while a pod refers to it, want 1", got)
		}
		o.Forget("b")
		if got := a.watched("configmaps"); got != 0 {
			t.Errorf("%d watches after the last pod, want none", got)
		}
		if len(o.configMaps.entries) != 0 {
			t.Error("the object is kept after the last pod")
		}
	})
}

func TestAChangeNamesThePodsThatReadTheObject(t *testing.T) {
	inBubble(t, []runtime.Object{configMap("m", "1"), configMap("other", "1")}, func(t *testing.T, a *api, o *Objects) {
		value(o, podOf("a"), "m")
		value(o, podOf("b"), "m")
		value(o, podOf("c"), "other")
		if got := a.news(); got != "" {
			t.Errorf("told %q of what nobody knew otherwise", got)
		}
		begin := time.Now()
		a.update(configMap("m", "2"))
		if got := a.news(); got != "a b" || time.Since(begin) != 0 {
			t.Errorf("told %q after %v, want a b at once", got, time.Since(begin))
		}
		if got := value(o, podOf("a"), "m"); got != "2" {
			t.Errorf("read %q after the change, want 2", got)
		}
		if err := a.client.CoreV1().ConfigMaps("ns").Delete(t.Context(), "m", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := a.news(); got != "a b" {
			t.Errorf("told %q of the deletion, want a b", got)
		}
		if _, err := o.ConfigMap(t.Context(), podOf("a"), "m"); !errdefs.IsNotFound(err) {
			t.Errorf("after the deletion: %v, want NotFound", err)
		}
	})
}

func TestMissingObjectIsToldInTheKubeletsWordsAndAnnouncedWhenItComes(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *api, o *Objects) {
		begin := time.Now()
		if _, err := o.ConfigMap(t.Context(), podOf("a"), "m"); !errdefs.IsNotFound(err) || err.Error() != `configmap "m" not found` {
			t.Errorf("error %v, want NotFound: configmap %q not found", err, "m")
		}
		if _, err := o.Secret(t.Context(), podOf("a"), "s"); !errdefs.IsNotFound(err) || err.Error() != `secret "s" not found` {
			t.Errorf("error %v, want NotFound: secret %q not found", err, "s")
		}
		if waited := time.Since(begin); waited != 0 {
			t.Errorf("waited %v although the API had answered", waited)
		}
		if _, err := a.client.CoreV1().ConfigMaps("ns").Create(t.Context(), configMap("m", "1"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := a.news(); got != "a" {
			t.Errorf("told %q, want a", got)
		}
	})
}

func TestFailedReadIsNeverTakenForAnAbsence(t *testing.T) {
	for _, tc := range []struct {
		name    string
		failure error
		is      func(error) bool
	}{
		{"forbidden", apierrors.NewForbidden(v1.Resource("configmaps"), "m", errors.New("no relationship")), errdefs.IsPermissionDenied},
		{"API away", errAway, errdefs.IsUnavailable},
		{"API troubled", apierrors.NewInternalError(errors.New("etcd")), errdefs.IsUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, []runtime.Object{configMap("m", "1")}, func(t *testing.T, a *api, o *Objects) {
				a.fail(tc.failure)
				begin := time.Now()
				_, err := o.ConfigMap(t.Context(), podOf("a"), "m")
				if !tc.is(err) || errdefs.IsNotFound(err) || time.Since(begin) != firstAnswer {
					t.Errorf("after %v: %v; want another class, after %v", time.Since(begin), err, firstAnswer)
				}
				if want := "failed to sync configmap cache: " + tc.failure.Error(); err.Error() != want {
					t.Errorf("text %q, want %q", err, want)
				}
				a.fail(nil)
				time.Sleep(10 * time.Second)
				if got := a.news(); got != "a" {
					t.Errorf("told %q within 10 s of the API's return, want a", got)
				}
				if got := value(o, podOf("a"), "m"); got != "1" {
					t.Errorf("read %q, want 1", got)
				}
			})
		})
	}
}

func TestReadRidesOverAnAuthorizerThatLags(t *testing.T) {
	inBubble(t, []runtime.Object{configMap("m", "1")}, func(t *testing.T, a *api, o *Objects) {
		a.fail(apierrors.NewForbidden(v1.Resource("configmaps"), "m", errors.New("no relationship")))
		time.AfterFunc(time.Second, func() { a.fail(nil) })
		if got := value(o, podOf("a"), "m"); got != "1" {
			t.Errorf("read %q, want 1", got)
		}
	})
}

func TestReadEndsWithItsContext(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, a *api, o *Objects) {
		a.fail(errAway)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := o.Secret(ctx, podOf("a"), "s"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("after %v: %v, want the end of the context", time.Since(begin), err)
		}
	})
}

func TestLastKnownContentIsServedWhileTheAPIIsAway(t *testing.T) {
	inBubble(t, []runtime.Object{configMap("m", "1")}, func(t *testing.T, a *api, o *Objects) {
		value(o, podOf("a"), "m")
		a.fail(errAway)
		a.mu.Lock()
		for _, w := range a.open {
			w.Stop()
		}
		a.mu.Unlock()
		time.Sleep(10 * time.Minute)
		begin := time.Now()
		if got := value(o, podOf("b"), "m"); got != "1" || time.Since(begin) > firstAnswer {
			t.Errorf("read %q after %v, want 1", got, time.Since(begin))
		}
	})
}

func TestImmutableObjectIsNotWatchedOn(t *testing.T) {
	immutable := func(m *v1.ConfigMap) { m.Immutable = ptr.To(true) }
	inBubble(t, []runtime.Object{configMap("m", "1", immutable), configMap("later", "1")}, func(t *testing.T, a *api, o *Objects) {
		value(o, podOf("a"), "m")
		value(o, podOf("a"), "later")
		if got := a.watched("configmaps"); got != 1 {
			t.Errorf("%d watches, want one, of the object that may change", got)
		}
		a.update(configMap("later", "2", immutable))
		if got := a.watched("configmaps"); got != 0 {
			t.Errorf("%d watches, want none", got)
		}
		a.fail(errAway)
		for _, name := range []string{"m", "later"} {
			if _, err := o.ConfigMap(t.Context(), podOf("b"), name); err != nil {
				t.Errorf("reading %s again: %v", name, err)
			}
		}
	})
}

func TestObjectThatNoVolumeShowsIsWatchedAsLongAsItIsRead(t *testing.T) {
	shown := podOf("v", func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{
			{VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "volume"}}}},
			{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "projected"}}},
			}}}},
		}
	})
	objects := []runtime.Object{configMap("volume", "1"), configMap("projected", "1"), configMap("env", "1")}
	inBubble(t, objects, func(t *testing.T, a *api, o *Objects) {
		for _, name := range []string{"volume", "projected", "env"} {
			value(o, shown, name)
		}
		time.Sleep(4 * time.Minute)
		value(o, shown, "env")
		time.Sleep(4 * time.Minute)
		if got := a.watched("configmaps"); got != 3 {
			t.Errorf("%d watches, want 3: each was read a while ago or is shown", got)
		}
		time.Sleep(3 * time.Minute)
		if got := a.watched("configmaps"); got != 2 {
			t.Errorf("%d watches, want those of the two objects that volumes show", got)
		}
		a.update(configMap("env", "2"))
		if got := value(o, shown, "env"); got != "2" {
			t.Errorf("read %q, want the new content", got)
		}
		if got := a.watched("configmaps"); got != 3 {
			t.Errorf("%d watches after it was read again, want 3", got)
		}
	})
}

func TestSecretsThatVolumesShowAreKnown(t *testing.T) {
	pod := podOf("a", func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{
			{VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "s"}}},
			{VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
				{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "p"}}},
			}}}},
		}
		p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}}
	})
	for name, want := range map[string]bool{"s": true, "p": true, "pull": false} {
		if got := secretsOf(nil).shown(pod, name); got != want {
			t.Errorf("secret %s shown by a volume: %v, want %v", name, got, want)
		}
	}
}

func TestReferenceWithoutANameIsNotRead(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, _ *api, o *Objects) {
		if got := value(o, podOf("a"), ""); got != `error: object "ns"/"" not registered: invalid argument` {
			t.Error(got)
		}
	})
}

func TestServicesAreThoseOfTheNamespace(t *testing.T) {
	service := func(ns, name string) *v1.Service {
		return &v1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{"long": "text"}},
			Spec:       v1.ServiceSpec{ClusterIP: "10.0.0.1", Ports: []v1.ServicePort{{Port: 80}}, Selector: map[string]string{"a": "b"}},
		}
	}
	names := func(t *testing.T, o *Objects, ns string) (out []string) {
		list, err := o.Services(t.Context(), ns)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			if s.Annotations != nil || s.Spec.Selector != nil {
				t.Error("more is kept than pods are told")
			}
			out = append(out, fmt.Sprintf("%s %s %d", s.Name, s.Spec.ClusterIP, s.Spec.Ports[0].Port))
		}
		return out
	}
	inBubble(t, []runtime.Object{service("ns", "b"), service("ns", "a"), service("other", "c")}, func(t *testing.T, a *api, o *Objects) {
		if diff := cmp.Diff([]string{"a 10.0.0.1 80", "b 10.0.0.1 80"}, names(t, o, "ns")); diff != "" {
			t.Errorf("services (-want +got):\n%s", diff)
		}
		if err := a.client.CoreV1().Services("ns").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		a.news()
		if diff := cmp.Diff([]string{"b 10.0.0.1 80"}, names(t, o, "ns")); diff != "" {
			t.Errorf("services after a deletion (-want +got):\n%s", diff)
		}
	})
}

func TestServicesThatWereNeverReadAreAnErrorInTheKubeletsWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := New(Options{Client: fake.NewClientset(), Clock: clock.RealClock{}}) // and does not run
		begin := time.Now()
		if _, err := o.Services(t.Context(), "ns"); !errdefs.IsUnavailable(err) || time.Since(begin) != firstAnswer ||
			err.Error() != "services have not yet been read at least once, cannot construct envvars" {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}
