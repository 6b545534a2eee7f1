// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"net/http"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
)

func TestPodsAreWhatTheAPIHas(t *testing.T) {
	b := newBed(t, nil)
	code, body := b.get(t, "/pods")
	var list v1.PodList
	mustDecode(t, body, &list)
	if code != http.StatusOK || list.Kind != "PodList" || list.APIVersion != "v1" {
		t.Errorf("got %d %s", code, body)
	}
	if diff := cmp.Diff([]v1.Pod{*b.view.pods[0]}, list.Items); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	b.view.pods = nil
	if _, body := b.get(t, "/pods"); !strings.Contains(body, `"items":[]`) {
		t.Errorf("without pods: %s", body)
	}
}

func TestRunningPodsAreWhatTheRuntimeHas(t *testing.T) {
	uids := []types.UID{"uid-web", "uid-done", "uid-orphan", "uid-new"}
	b := newBed(t, func(b *bed, o *Options) {
		o.Observed = func() []types.UID { return uids }
		b.view.observed["uid-done"] = &cri.PodStatus{UID: "uid-done", Containers: []cri.ContainerStatus{{Name: "x", State: cri.ContainerExited}}}
		b.view.observed["uid-orphan"] = &cri.PodStatus{
			UID: "uid-orphan", Name: "lost", Namespace: "ns",
			Containers: []cri.ContainerStatus{{Name: "left", Image: "old", State: cri.ContainerRunning}},
		}
	})
	code, body := b.get(t, "/runningpods/")
	var list v1.PodList
	mustDecode(t, body, &list)
	got := map[string][]string{}
	for _, pod := range list.Items {
		for _, c := range pod.Spec.Containers {
			key := pod.Namespace + "/" + pod.Name + "/" + string(pod.UID)
			got[key] = append(got[key], c.Name+"="+c.Image)
		}
	}
	want := map[string][]string{"ns/web/uid-web": {"app=img", "tty=img"}, "ns/lost/uid-orphan": {"left=old"}}
	if diff := cmp.Diff(want, got); diff != "" || code != http.StatusOK {
		t.Errorf("status %d, running (-want +got):\n%s", code, diff)
	}
	b.view.mu.Lock()
	b.view.failed["uid-done"] = errdefs.ErrUnavailable
	b.view.mu.Unlock()
	if code, _ := b.get(t, "/runningpods"); code != http.StatusInternalServerError {
		t.Errorf("with a pod that could not be observed: status %d, want 500", code)
	}
}
