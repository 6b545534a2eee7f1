// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/test/images"
)

// part is the edge for a subtest.
func (e *edge) part(t *testing.T) *edge {
	other := *e
	other.T = t
	return &other
}

func amounts(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
}

// start makes a pod of one container that runs the script, removes it after the test, and waits for nothing.
func (e *edge) start(name, script string, edit func(*v1.Pod)) *v1.Pod {
	e.Helper()
	no, grace := false, int64(1)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name},
		Spec: v1.PodSpec{
			AutomountServiceAccountToken: &no, TerminationGracePeriodSeconds: &grace, DNSPolicy: v1.DNSDefault,
			Containers: []v1.Container{{Name: "main", Image: images.Busybox, Command: []string{"sh", "-c", script}}},
		},
	}
	edit(pod)
	eventually(e.T, "pod "+name+" is made", func() (err error) { // its service account is made by a controller
		pod, err = e.cluster.Client().CoreV1().Pods(pod.Namespace).Create(e.Context(), pod, metav1.CreateOptions{})
		return err
	})
	e.Cleanup(func() {
		if !e.Failed() {
			_, _ = e.cluster.Kubectl(context.Background(), "delete", "pod", name, "--wait=false", "--ignore-not-found")
		}
	})
	return pod
}

// run is start that waits until the pod is Ready.
func (e *edge) run(name, script string, edit func(*v1.Pod)) *v1.Pod {
	e.Helper()
	return e.await(e.start(name, script, edit), "is Ready", ready)
}

// await waits until the pod fulfils the check and returns it.
func (e *edge) await(pod *v1.Pod, what string, check func(*v1.Pod) error) *v1.Pod {
	e.Helper()
	var last *v1.Pod
	eventually(e.T, "pod "+pod.Name+" "+what, func() (err error) {
		if last, err = e.cluster.Client().CoreV1().Pods(pod.Namespace).Get(e.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			return err
		}
		return check(last)
	})
	return last
}

func ready(pod *v1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("it is %s, with containers %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
}

// resize changes the pod through its subresource and waits until its status says that it has what it asks for.
func (e *edge) resize(pod *v1.Pod, edit func(*v1.Pod)) {
	e.Helper()
	pod = e.await(pod, "is there", func(*v1.Pod) error { return nil })
	edit(pod)
	pod, err := e.cluster.Client().CoreV1().Pods(pod.Namespace).UpdateResize(e.Context(), pod.Name, pod, metav1.UpdateOptions{})
	must(e.T, err)
	e.await(pod, "has what it asks for", func(p *v1.Pod) error {
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress {
				return fmt.Errorf("condition %+v", c)
			}
		}
		got := p.Status.ContainerStatuses[0].Resources
		if p.Spec.Resources != nil {
			got = p.Status.Resources
		}
		want := p.Spec.Containers[0].Resources
		if p.Spec.Resources != nil {
			want = *p.Spec.Resources
		}
		if got == nil || !equality.Semantic.DeepEqual(*got, want) || p.Status.ObservedGeneration != p.Generation {
			return fmt.Errorf("generation %d of %d, resources %+v", p.Status.ObservedGeneration, p.Generation, got)
		}
		return ready(p)
	})
}

// remove deletes the pod and waits until nothing of it is in the API.
func (e *edge) remove(pod *v1.Pod) {
	e.Helper()
	must(e.T, e.cluster.Client().CoreV1().Pods(pod.Namespace).Delete(e.Context(), pod.Name, metav1.DeleteOptions{}))
	eventually(e.T, "pod "+pod.Name+" is gone", func() error {
		_, err := e.cluster.Client().CoreV1().Pods(pod.Namespace).Get(e.Context(), pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there (%w)", err)
	})
}

// podSlice is the directory of a pod's control group.
func podSlice(pod *v1.Pod) string {
	const top = "/sys/fs/cgroup/tombolo.slice/tombolo-kubepods.slice/"
	name := "pod" + strings.ReplaceAll(string(pod.UID), "-", "_") + ".slice"
	if pod.Status.QOSClass == v1.PodQOSGuaranteed {
		return top + "tombolo-kubepods-" + name
	}
	class := "tombolo-kubepods-" + strings.ToLower(string(pod.Status.QOSClass))
	return top + class + ".slice/" + class + "-" + name
}

// containerScope is the directory of the control group of a pod's first container.
func containerScope(pod *v1.Pod) string {
	id := strings.TrimPrefix(pod.Status.ContainerStatuses[0].ContainerID, "containerd://")
	return podSlice(pod) + "/cri-containerd-" + id + ".scope"
}

// requireFiles compares files of a control group with what they should say.
func (e *edge) requireFiles(dir string, want map[string]string) {
	e.Helper()
	got := e.on("cd " + dir + ` && for f in *.*; do echo "$f=$(cat $f 2> /dev/null | head -n 1)"; done`)
	has := map[string]string{}
	for line := range strings.Lines(got) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		has[name] = value
	}
	for name, value := range want {
		if has[name] != value {
			e.Errorf("%s of %s is %q, want %q", name, dir, has[name], value)
		}
	}
}
