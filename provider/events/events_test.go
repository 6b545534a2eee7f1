// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package events_test

import (
	"cmp"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/tombolo-dev/tombolo/provider/events"
)

func TestRecorderWritesTheKubeletsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		recorder := events.Start(t.Context(), client.CoreV1(), "edge-1", slog.New(slog.DiscardHandler))
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "u1"}}
		recorder.Event(pod, v1.EventTypeWarning, "FailedMount", "no such volume")
		recorder.Event(&v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "edge-1", UID: "n1"}, v1.EventTypeNormal, "NodeReady", "Node edge-1 status is now: NodeReady")
		synctest.Wait()
		recorder.Stop()

		list, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		type event struct {
			Namespace string
			Object    v1.ObjectReference
			Source    v1.EventSource
			Controller, Instance,
			Type, Reason, Message string
		}
		var got []event
		for _, e := range list.Items {
			e.InvolvedObject.ResourceVersion = ""
			got = append(got, event{
				e.Namespace, e.InvolvedObject, e.Source, e.ReportingController, e.ReportingInstance, e.Type, e.Reason, e.Message,
			})
		}
		slices.SortFunc(got, func(a, b event) int { return cmp.Compare(a.Reason, b.Reason) })
		kubelet := v1.EventSource{Component: "kubelet", Host: "edge-1"}
		want := []event{
			{
				"shop", v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "u1"},
				kubelet, "kubelet", "edge-1", "Warning", "FailedMount", "no such volume",
			},
			{
				"default", v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: "edge-1", UID: "n1"},
				kubelet, "kubelet", "edge-1", "Normal", "NodeReady", "Node edge-1 status is now: NodeReady",
			},
		}
		if d := gocmp.Diff(want, got); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
	})
}

func TestRecorderDropsAfterStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset()
		recorder := events.Start(t.Context(), client.CoreV1(), "edge-1", slog.New(slog.DiscardHandler))
		recorder.Stop()
		recorder.Event(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}, v1.EventTypeNormal, "Killing", "late")
		synctest.Wait()
		if n := len(client.Actions()); n != 0 {
			t.Errorf("%d requests after the stop", n)
		}
	})
}
