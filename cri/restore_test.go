// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestRestoredPodCanBeTerminatedLikeTheOriginal(t *testing.T) {
	original := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "web", Namespace: "shop", DeletionGracePeriodSeconds: new(int64(5))},
		Spec: v1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(45)),
			Containers: []v1.Container{{
				Name: "main", Image: "busybox:1", TerminationMessagePath: "/dev/termination-log",
				TerminationMessagePolicy: v1.TerminationMessageFallbackToLogsOnError,
				Ports:                    []v1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: v1.ProtocolTCP}},
				Lifecycle: &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
					HTTPGet: &v1.HTTPGetAction{Path: "/bye?ü=😀", Port: intstr.FromString("http")},
				}},
			}},
		},
	}
	main := &original.Spec.Containers[0]
	cfg, err := ContainerConfig(ContainerInput{Pod: original, Container: main, ImageRef: "sha256:1"})
	if err != nil {
		t.Fatal(err)
	}
	observed := &PodStatus{UID: "u", Name: "web", Namespace: "shop", Containers: []ContainerStatus{
		{Name: "main", Image: main.Image, Labels: cfg.Labels, Annotations: cfg.Annotations},
		{Name: "main", Image: "an older one"},
	}}
	restored, err := RestorePod(observed)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(original, restored); diff != "" {
		t.Errorf("restored pod (-original +restored):\n%s", diff)
	}
}

func TestRestoredPodSurvivesBrokenAnnotations(t *testing.T) {
	observed := &PodStatus{UID: "u", Name: "p", Namespace: "n",
		Sandboxes: []SandboxStatus{{HostNetwork: true}},
		Containers: []ContainerStatus{
			{Name: "bad", Annotations: map[string]string{
				AnnotationPreStopHandler: "{", AnnotationContainerPorts: "7", AnnotationPodTerminationGrace: "-1", AnnotationPodDeletionGrace: "soon",
			}},
			{Name: "good", Annotations: map[string]string{AnnotationPodTerminationGrace: "12"}},
		},
	}
	pod, err := RestorePod(observed)
	for _, key := range []string{AnnotationPreStopHandler, AnnotationContainerPorts, AnnotationPodTerminationGrace, AnnotationPodDeletionGrace} {
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("error %v does not name %s", err, key)
		}
	}
	want := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "p", Namespace: "n"},
		Spec: v1.PodSpec{
			HostNetwork: true, TerminationGracePeriodSeconds: new(int64(12)),
			Containers: []v1.Container{{Name: "bad"}, {Name: "good"}},
		},
	}
	if diff := cmp.Diff(want, pod); diff != "" {
		t.Errorf("restored pod (-want +got):\n%s", diff)
	}
}

func FuzzRestorePod(f *testing.F) {
	f.Add(`{"exec":{"command":["sh","-c","sleep 3"]}}`, `[{"containerPort":80}]`, "30", "1")
	f.Add(`{"sleep":{"seconds":-1}}`, `{}`, "9223372036854775808", "")
	f.Add(`null`, `null`, "0", "x")
	f.Fuzz(func(t *testing.T, preStop, ports, grace, deletion string) {
		pod, _ := RestorePod(&PodStatus{UID: "u", Containers: []ContainerStatus{{Name: "c", Annotations: map[string]string{
			AnnotationPreStopHandler: preStop, AnnotationContainerPorts: ports,
			AnnotationPodTerminationGrace: grace, AnnotationPodDeletionGrace: deletion,
		}}}})
		if len(pod.Spec.Containers) != 1 || pod.UID != "u" {
			t.Fatalf("restored %+v", pod)
		}
		for _, g := range []*int64{pod.Spec.TerminationGracePeriodSeconds, pod.DeletionGracePeriodSeconds} {
			if g != nil && *g < 0 {
				t.Fatalf("negative grace period %d", *g)
			}
		}
	})
}
