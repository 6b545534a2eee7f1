// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func withSizeLimit(limit string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		size := resource.MustParse(limit)
		p.Spec.Volumes = []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: &size}}}}
		p.Spec.Containers[0].VolumeMounts = []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
	}
}

// evicted says whether the API shows that the pod was evicted.
func (w *world) evicted(uid types.UID) func() bool {
	return func() bool { return w.api.get(uid).Status.Reason == "Evicted" }
}

func TestPodAboveItsSizeLimitIsEvictedWithTheKubeletsGrace(t *testing.T) {
	inWorld(t, func(w *world) {
		w.guardI1()
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		w.api.create(testPod("a", withSizeLimit("1Mi")))
		w.api.create(testPod("b", withSizeLimit("1Mi")))
		w.eventually("running", 10*time.Second, func() bool { return w.running("a")() && w.running("b")() })
		w.host.setUsage("a", &host.PodUsage{Volumes: map[string]int64{"cache": 2 << 20}}, nil)
		w.eventually("evicted", 15*time.Second, w.evicted("a"))
		p := w.api.get("a")
		end := p.Status.ContainerStatuses[0].State.Terminated
		if p.Status.Phase != v1.PodFailed || p.Status.Message != "Usage of EmptyDir volume \"cache\" exceeds the limit \"1Mi\". " || end == nil || end.ExitCode != 137 {
			t.Errorf("phase %s, message %q, container %+v", p.Status.Phase, p.Status.Message, end)
		}
		time.Sleep(time.Minute)
		if left := w.cri.Containers("a"); len(left) > 0 {
			t.Errorf("containers of the evicted pod are left: %+v", left)
		}
		if !w.running("b")() {
			t.Error("the other pod does not run")
		}
		told := 0
		for len(w.recorder.Events) > 0 {
			if event := <-w.recorder.Events; strings.HasPrefix(event, "Warning Evicted Usage of EmptyDir") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("the eviction was told %d times", told)
		}
		w.restart()
		time.Sleep(time.Minute)
		if got := w.api.get("a").Status; got.Phase != v1.PodFailed || got.Reason != "Evicted" || len(w.cri.Containers("a")) > 0 {
			t.Errorf("after a restart: %s %s, containers %v", got.Phase, got.Reason, w.cri.Containers("a"))
		}
	})
}

func TestLostLinkNeverEvicts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a", withSizeLimit("1Mi")))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.host.setUsage("a", nil, errdefs.ErrUnavailable)
		time.Sleep(10 * time.Minute)
		if !w.running("a")() {
			t.Errorf("the pod does not run: %+v", w.api.get("a").Status)
		}
	})
}
