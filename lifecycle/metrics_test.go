// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// expectMetrics compares counters and gauges with the text that a scrape of them gives.
func (w *world) expectMetrics(text string, names ...string) {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	var lines []string
	for _, f := range families {
		if !slices.Contains(names, f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := f.GetName()
			if len(labels) > 0 {
				name += "{" + strings.Join(labels, ",") + "}"
			}
			lines = append(lines, fmt.Sprintf("%s %g", name, m.GetGauge().GetValue()+m.GetCounter().GetValue()))
		}
	}
	if got, want := strings.Join(lines, "\n"), strings.TrimSpace(text); got != want {
		w.t.Errorf("metrics:\n%s\nwant:\n%s", got, want)
	}
}

func TestPodsAreCountedAsTheKubeletCountsThem(t *testing.T) {
	inWorld(t, func(w *world) {
		w.cri.Behave(fakecri.Selector{UID: "b"}, fakecri.Behaviour{Exits: true, ExitAfter: time.Second})
		w.cri.Behave(fakecri.Selector{UID: "s"}, fakecri.Behaviour{OnTERM: fakecri.TERM{After: 10 * time.Second}})
		w.api.create(testPod("a"))
		w.api.create(testPod("b", func(p *v1.Pod) { p.Spec.RestartPolicy = v1.RestartPolicyNever }))
		w.api.create(static("s"))
		w.eventually("ended", 10*time.Second, func() bool { return w.api.get("b").Status.Phase == v1.PodSucceeded })
		w.eventually("running", 10*time.Second, w.running("s"))
		w.api.delete("s", 0)
		time.Sleep(5 * time.Second)
		w.expectMetrics(`
kubelet_active_pods{static=""} 1
kubelet_active_pods{static="true"} 0
kubelet_desired_pods{static=""} 2
kubelet_desired_pods{static="true"} 0
kubelet_mirror_pods 0
kubelet_working_pods{config="desired",lifecycle="sync",static=""} 1
kubelet_working_pods{config="desired",lifecycle="sync",static="true"} 0
kubelet_working_pods{config="desired",lifecycle="terminated",static=""} 1
kubelet_working_pods{config="desired",lifecycle="terminated",static="true"} 0
kubelet_working_pods{config="desired",lifecycle="terminating",static=""} 0
kubelet_working_pods{config="desired",lifecycle="terminating",static="true"} 0
kubelet_working_pods{config="orphan",lifecycle="sync",static=""} 0
kubelet_working_pods{config="orphan",lifecycle="sync",static="true"} 0
kubelet_working_pods{config="orphan",lifecycle="terminated",static=""} 0
kubelet_working_pods{config="orphan",lifecycle="terminated",static="true"} 0
kubelet_working_pods{config="orphan",lifecycle="terminating",static=""} 0
kubelet_working_pods{config="orphan",lifecycle="terminating",static="true"} 1
kubelet_working_pods{config="runtime_only",lifecycle="sync",static="unknown"} 0
kubelet_working_pods{config="runtime_only",lifecycle="terminated",static="unknown"} 0
kubelet_working_pods{config="runtime_only",lifecycle="terminating",static="unknown"} 0
`, "kubelet_desired_pods", "kubelet_active_pods", "kubelet_mirror_pods", "kubelet_working_pods")
		w.api.create(static("s"))
		time.Sleep(30 * time.Second) // the one before has ended by then
		w.expectMetrics(`
kubelet_desired_pods{static=""} 2
kubelet_desired_pods{static="true"} 1
kubelet_mirror_pods 1
kubelet_restarted_pods_total{static="true"} 1
`, "kubelet_desired_pods", "kubelet_mirror_pods", "kubelet_restarted_pods_total")
	})
}

func TestTimesOfStartsAreMeasuredOnceForEachPod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a", withInit, func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, testContainer("second")) }))
		w.cri.Behave(fakecri.Selector{Container: "init"}, fakecri.Behaviour{Exits: true, ExitAfter: 20 * time.Second})
		w.eventually("running", time.Minute, w.running("a"))
		time.Sleep(5 * time.Minute)
		for name, want := range map[string]struct{ least, most float64 }{
			"kubelet_pod_start_duration_seconds":        {20, 24},
			"kubelet_pod_worker_start_duration_seconds": {0, 2},
			"kubelet_containers_per_pod_count":          {2, 2},
		} {
			count, sum := w.histogram(name)
			if count != 1 || sum < want.least || sum > want.most {
				t.Errorf("%s has %d observations of %g in all, want one of %g to %g", name, count, sum, want.least, want.most)
			}
		}
		w.restart()
		time.Sleep(time.Minute)
		if count, _ := w.histogram("kubelet_pod_start_duration_seconds"); count != 0 {
			t.Error("a pod that ran before the process started is measured as a start")
		}
	})
}

// histogram returns the number and the sum of the observations of a histogram without labels.
func (w *world) histogram(name string) (count uint64, sum float64) {
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			h := f.GetMetric()[0].GetHistogram()
			return h.GetSampleCount(), h.GetSampleSum()
		}
	}
	w.t.Fatalf("there is no metric %s", name)
	return 0, 0
}
