// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package statussink

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	k8stesting "k8s.io/client-go/testing"
)

var (
	name = types.NamespacedName{Namespace: "ns", Name: "web"}
	pods = schema.GroupResource{Resource: "pods"}
)

func testPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u1"},
		Status:     v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{Type: "foreign", Status: v1.ConditionTrue}}},
	}
}

func TestPatchChangesOnlyWhatItNames(t *testing.T) {
	client := fake.NewClientset(testPod())
	got, err := New(client, "n1").PatchPodStatus(t.Context(), name, "u1", "",
		[]byte(`{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{
		{Type: v1.PodReady, Status: v1.ConditionTrue}, {Type: "foreign", Status: v1.ConditionTrue},
	}}
	if d := cmp.Diff(want, got.Status); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	action, ok := client.Actions()[0].(k8stesting.PatchAction)
	if !ok || action.GetSubresource() != "status" || action.GetPatchType() != types.StrategicMergePatchType {
		t.Errorf("the action is not a strategic merge patch of the status: %v", client.Actions()[0])
	}
}

// request is what a server of the tests was asked.
type request struct{ Method, Path, Type, Body string }

// serve answers every request with the status code and body and returns a Sink for it.
func serve(t *testing.T, code int, body string) (*Sink, *[]request) {
	t.Helper()
	var seen []request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, request{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), string(sent)})
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
	})
	if err != nil {
		t.Fatal(err)
	}
	return New(client, "n1"), &seen
}

func TestPatchOnTheWireNamesTheUID(t *testing.T) {
	sink, seen := serve(t, http.StatusOK, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","uid":"u1","resourceVersion":"7"}}`)
	pod, err := sink.PatchPodStatus(t.Context(), name, "u1", "", []byte(`{"phase":"Running"}`))
	if err != nil {
		t.Fatal(err)
	}
	if pod.ResourceVersion != "7" {
		t.Errorf("the answer was not returned: %+v", pod)
	}
	want := []request{{
		"PATCH", "/api/v1/namespaces/ns/pods/web/status", "application/strategic-merge-patch+json",
		`{"metadata":{"uid":"u1"},"status":{"phase":"Running"}}`,
	}}
	if d := cmp.Diff(want, *seen); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestPatchOnTheWireNamesTheVersionItWasMadeFrom(t *testing.T) {
	sink, seen := serve(t, http.StatusOK, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","uid":"u1","resourceVersion":"7"}}`)
	if _, err := sink.PatchPodStatus(t.Context(), name, "u1", "6", []byte(`{"phase":"Running"}`)); err != nil {
		t.Fatal(err)
	}
	if got, want := (*seen)[0].Body, `{"metadata":{"uid":"u1","resourceVersion":"6"},"status":{"phase":"Running"}}`; got != want {
		t.Errorf("the body is %s, want %s", got, want)
	}
}

func TestDeleteOnTheWireHasNoGraceAndNamesTheUID(t *testing.T) {
	sink, seen := serve(t, http.StatusOK, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web","uid":"u1"}}`)
	if err := sink.DeletePod(t.Context(), name, "u1"); err != nil {
		t.Fatal(err)
	}
	want := []request{{
		"DELETE", "/api/v1/namespaces/ns/pods/web", "application/json",
		`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"preconditions":{"uid":"u1"}}` + "\n",
	}}
	if d := cmp.Diff(want, *seen); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestErrorsHaveClasses(t *testing.T) {
	for _, tt := range []struct {
		desc string
		err  error
		is   func(error) bool
	}{
		{"not found", apierrors.NewNotFound(pods, "web"), errdefs.IsNotFound},
		{"another UID", apierrors.NewConflict(pods, "web", errors.New("uid")), errdefs.IsConflict},
		{"not allowed", apierrors.NewForbidden(pods, "web", errors.New("node")), errdefs.IsPermissionDenied},
		{"server down", apierrors.NewServiceUnavailable("starting"), errdefs.IsUnavailable},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			client := fake.NewClientset(testPod())
			client.PrependReactor("*", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, tt.err })
			sink := New(client, "n1")
			_, getErr := sink.GetPod(t.Context(), name.Namespace, name.Name)
			_, patchErr := sink.PatchPodStatus(t.Context(), name, "u1", "", []byte(`{}`))
			for verb, err := range map[string]error{
				"get": getErr, "patch": patchErr, "delete": sink.DeletePod(t.Context(), name, "u1"),
			} {
				if !tt.is(err) {
					t.Errorf("%s: the error has the wrong class: %v", verb, err)
				}
			}
		})
	}
}

func TestConflictOfTheAPIServerIsAConflict(t *testing.T) {
	sink, _ := serve(t, http.StatusConflict, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,
		"message":"Operation cannot be fulfilled on pods \"web\": the UID in the precondition (u1) does not match the UID in record (u2)."}`)
	if err := sink.DeletePod(t.Context(), name, "u1"); !errdefs.IsConflict(err) {
		t.Errorf("DeletePod() = %v, want a conflict", err)
	}
}

func TestMalformedPatchIsRefused(t *testing.T) {
	sink, seen := serve(t, http.StatusOK, `{}`)
	if _, err := sink.PatchPodStatus(t.Context(), name, "u1", "", []byte(`{"phase"`)); err == nil || len(*seen) > 0 {
		t.Errorf("PatchPodStatus() = %v after %d requests, want an error and no request", err, len(*seen))
	}
}

func TestGetReturnsThePod(t *testing.T) {
	got, err := New(fake.NewClientset(testPod()), "n1").GetPod(t.Context(), "ns", "web")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(testPod(), got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestGetOfAHiddenPodAsksInTheWayThatProvesAbsence(t *testing.T) {
	// This is what the Node authorizer answers for a pod that is gone.
	refusal := apierrors.NewForbidden(pods, "web", errors.New("no relationship found between node 'n1' and this object"))
	bound := testPod()
	bound.Spec.NodeName = "n1"
	for desc, tt := range map[string]struct {
		objects []runtime.Object
		is      func(error) bool
	}{
		"gone":        {nil, errdefs.IsNotFound},
		"still there": {[]runtime.Object{bound}, func(err error) bool { return err == nil }},
	} {
		t.Run(desc, func(t *testing.T) {
			client := fake.NewClientset(tt.objects...)
			client.PrependReactor("get", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, refusal })
			if _, err := New(client, "n1").GetPod(t.Context(), "ns", "web"); !tt.is(err) {
				t.Errorf("GetPod() = %v", err)
			}
		})
	}
}
