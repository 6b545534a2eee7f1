// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	hugeContainers, hugeVolumes, hugeVariables = 60, 40, 3000
	// odd is a text that goes wrong where bytes and characters are mixed up.
	odd = "🏝️ ünïcödé \t\"'\\ żółw\n"
	// mostAnnotations is how much a sandbox may carry of what users wrote, mostObject how large an object the API takes.
	mostAnnotations = 20 << 10
	mostObject      = 3 << 19
)

// hugePod is as large as a pod can be: many containers, volumes and variables, a long name and long annotations.
func hugePod() *v1.Pod {
	p := &v1.Pod{}
	p.Name, p.Namespace, p.UID = strings.Repeat("long-", 40)+"x", podName("").Namespace, "huge"
	p.Finalizers = []string{"example.com/look"}
	p.Annotations = map[string]string{"example.com/long": strings.Repeat(odd, (256<<10)/len(odd))}
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	for i := range hugeVolumes {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{
			Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
		})
	}
	for i := range hugeContainers {
		c := v1.Container{Name: fmt.Sprint("c", i), Args: []string{odd, strings.Repeat("a", 200)}}
		for _, v := range p.Spec.Volumes {
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	for i := range hugeVariables {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, v1.EnvVar{Name: fmt.Sprint("E", i), Value: fmt.Sprint(i, odd)})
	}
	fillDefaults(p)
	return p
}

// TestHugePodRunsWithEveryByteOfItsValues is report B99: kubernetes/kubernetes#39341, #138380.
func TestHugePodRunsWithEveryByteOfItsValues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		watchers := w.guard()
		w.StartNode()
		pod := hugePod()
		w.introduce(pod)
		for _, c := range pod.Spec.Containers {
			w.Host.SetMessage(pod.UID, c.Name, 0, strings.Repeat(odd, 4096/len(odd)))
		}
		if err := w.API.Create(pod); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if !ready(w.API.Pod(nameOf(pod))) {
			t.Fatalf("it is not ready: %+v", w.API.Pod(nameOf(pod)).Status)
		}
		checkHuge(t, w, pod)
		w.API.Delete(nameOf(pod), 5*time.Second)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		checkMessages(t, w.API.Pod(nameOf(pod)))
		w.close()
		for _, v := range watchers.Violations() {
			t.Errorf("broken: %s", v)
		}
	})
}

// checkHuge looks at what the runtime was given.
func checkHuge(t *testing.T, w *World, pod *v1.Pod) {
	t.Helper()
	first, _ := w.Runtime.Newest(pod.UID, "c0")
	got := map[string]string{}
	for _, e := range first.Config.GetEnvs() {
		got[e.GetKey()] = string(e.GetValue())
	}
	for _, e := range pod.Spec.Containers[0].Env {
		if got[e.Name] != e.Value {
			t.Fatalf("%s is %q, want %q", e.Name, got[e.Name], e.Value)
		}
	}
	if !slices.Equal(first.Config.GetArgs(), pod.Spec.Containers[0].Args) {
		t.Errorf("arguments %q", first.Config.GetArgs())
	}
	mounted := slices.DeleteFunc(slices.Clone(first.Config.GetMounts()), func(m *runtimeapi.Mount) bool {
		return !strings.HasPrefix(m.GetContainerPath(), "/v")
	})
	if len(mounted) != hugeVolumes {
		t.Errorf("%d volumes are mounted", len(mounted))
	}
	for _, s := range w.Runtime.Sandboxes(pod.UID) {
		size := 0
		for k, v := range s.Config.GetAnnotations() {
			size += len(k) + len(v)
		}
		if size > mostAnnotations {
			t.Errorf("the sandbox carries %d bytes of annotations", size)
		}
	}
}

// checkMessages looks at what the API was given after the end.
func checkMessages(t *testing.T, pod *v1.Pod) {
	t.Helper()
	if pod == nil || !terminal(pod) {
		t.Fatalf("it has not ended: %+v", pod)
	}
	size := 0
	for _, s := range pod.Status.ContainerStatuses {
		if s.State.Terminated == nil || s.State.Terminated.Message == "" {
			t.Fatalf("%s has no message: %+v", s.Name, s.State)
		}
		size += len(s.State.Terminated.Message)
	}
	if size > 12<<10 {
		t.Errorf("%d bytes of messages", size)
	}
	object, err := json.Marshal(pod)
	if err != nil || len(object) > mostObject {
		t.Errorf("the object has %d bytes, %v", len(object), err)
	}
}
