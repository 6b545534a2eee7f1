// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// fromField and fromResource are variables that the downward API fills in.
func fromField(name, path string) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}
}

func fromResource(name, of, divisor string) v1.EnvVar {
	ref := &v1.ResourceFieldSelector{Resource: of, Divisor: resource.MustParse(divisor)}
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{ResourceFieldRef: ref}}
}

// TestContainerHasTheEnvironmentOfItsPod: from objects, which the node may read as its pod refers to them, from the pod, from
// the node and from Services.
func TestContainerHasTheEnvironmentOfItsPod(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	api := k.client().CoreV1()
	_, err := api.ConfigMaps(k.namespace).Create(t.Context(), &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"COLOUR": "blue", "odd.key-1": "odd"},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = api.Secrets(k.namespace).Create(t.Context(), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "keys"}, Data: map[string][]byte{"PASSWORD": []byte("two words")},
	}, metav1.CreateOptions{})
	must(t, err)
	service, err := api.Services(k.namespace).Create(t.Context(), &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "my-db"}, Spec: v1.ServiceSpec{Ports: []v1.ServicePort{{Name: "pg", Port: 5432}}},
	}, metav1.CreateOptions{})
	must(t, err)
	pod := k.create(k.pod("env", `tr '\0' '\n' < /proc/1/environ > /marks/env; echo "$1" > /marks/arg`, restart(v1.RestartPolicyNever), func(p *v1.Pod) {
		p.Annotations = map[string]string{"example.com/note": "noted"}
		c := &p.Spec.Containers[0]
		c.Command = append(c.Command, "sh")
		c.Args = []string{"$(COLOUR)-$(SECRET)-$$(COLOUR)-$(NONE)"}
		c.EnvFrom = []v1.EnvFromSource{
			{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
			{Prefix: "KEY_", SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "keys"}}},
			{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: ptr.To(true)}},
		}
		c.Env = []v1.EnvVar{
			{Name: "SECRET", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{
				LocalObjectReference: v1.LocalObjectReference{Name: "keys"}, Key: "PASSWORD",
			}}},
			{Name: "URL", Value: "pg://$(MY_DB_SERVICE_HOST):$(MY_DB_SERVICE_PORT_PG)"},
			fromField("POD_IP", "status.podIP"), fromField("HOST_IP", "status.hostIP"), fromField("NODE", "spec.nodeName"),
			fromField("NOTE", "metadata.annotations['example.com/note']"), fromResource("CPU", "requests.cpu", "1m"),
			fromResource("MEMORY", "limits.memory", "1"),
		}
		c.Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("20m")}
	}))
	pod = k.awaitPhase(pod, v1.PodSucceeded)
	node, err := api.Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
	must(t, err)
	got, err := os.ReadFile(k.mark("env"))
	must(t, err)
	for _, want := range []string{
		"COLOUR=blue", "odd.key-1=odd", "KEY_PASSWORD=two words", "SECRET=two words", "URL=pg://" + service.Spec.ClusterIP + ":5432",
		"POD_IP=" + pod.Status.PodIP, "HOST_IP=" + pod.Status.HostIP, "NODE=" + pod.Spec.NodeName, "NOTE=noted", "CPU=20",
		fmt.Sprintf("MEMORY=%d", node.Status.Allocatable.Memory().Value()), "KUBERNETES_SERVICE_PORT=443",
		"MY_DB_PORT=tcp://" + service.Spec.ClusterIP + ":5432",
	} {
		if !strings.Contains("\n"+string(got), "\n"+want+"\n") {
			t.Errorf("missing %s in:\n%s", want, got)
		}
	}
	arg, err := os.ReadFile(k.mark("arg"))
	must(t, err)
	if want := "blue-two words-$(COLOUR)-$(NONE)\n"; string(arg) != want {
		t.Errorf("argument %q, want %q", arg, want)
	}
}

// TestPodWaitsForTheObjectsItRefersToAndStartsAsSoonAsTheyAreThere: in the kubelet's words, and without a restart.
func TestPodWaitsForTheObjectsItRefersToAndStartsAsSoonAsTheyAreThere(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("early", "sleep 1d", func(p *v1.Pod) {
		p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{
			LocalObjectReference: v1.LocalObjectReference{Name: "late"}, Key: "k",
		}}}}
	}))
	waits := func(message string) {
		t.Helper()
		k.await(pod, usual, "waiting: "+message, func(p *v1.Pod) error {
			for _, st := range p.Status.ContainerStatuses {
				if w := st.State.Waiting; w != nil && w.Reason == "CreateContainerConfigError" && w.Message == message {
					return nil
				}
			}
			return fmt.Errorf("statuses %+v", p.Status.ContainerStatuses)
		})
	}
	waits(`configmap "late" not found`)
	k.awaitEvent(pod, "Failed", `Error: configmap "late" not found`)
	api := k.client().CoreV1().ConfigMaps(k.namespace)
	late, err := api.Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{})
	must(t, err)
	waits("couldn't find key k in ConfigMap " + k.namespace + "/late")
	late.Data = map[string]string{"k": "v"}
	began := time.Now()
	_, err = api.Update(t.Context(), late, metav1.UpdateOptions{})
	must(t, err)
	running := k.awaitPodReady(pod)
	if n := running.Status.ContainerStatuses[0].RestartCount; n != 0 {
		t.Errorf("%d restarts", n)
	}
	t.Logf("ready %s after the object was complete", time.Since(began))
}

// TestVariablesComeFromFilesThatAnInitContainerWrote has one that writes a file, and one that tries to have another file read.
func TestVariablesComeFromFilesThatAnInitContainerWrote(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	writes := func(script string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			writer := shell("writer", script)
			writer.VolumeMounts = append(writer.VolumeMounts, v1.VolumeMount{Name: "files", MountPath: "/files"})
			p.Spec.InitContainers = []v1.Container{writer}
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "files", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}})
			for name, optional := range map[string]bool{"TOKEN": false, "NONE": true} {
				p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{
					FileKeyRef: &v1.FileKeySelector{VolumeName: "files", Path: "out/env", Key: name, Optional: &optional}}})
			}
		}
	}
	k.awaitPhase(k.create(k.pod("reads", `echo "<$TOKEN>${NONE-unset}" > /marks/token`, restart(v1.RestartPolicyNever),
		writes(`mkdir /files/out && printf "# made\nTOKEN='two\nlines'\n" > /files/out/env`))), v1.PodSucceeded)
	k.saw("token", "<two\nlines>unset", usual)
	for name, script := range map[string]string{
		"link": `mkdir /files/out && ln -s /etc/hostname /files/out/env`, "parent": `ln -s ../../../../.. /files/out`,
		"pipe": `mkdir /files/out && mkfifo /files/out/env`, "device": `mkdir /files/out && mknod /files/out/env c 1 5`,
	} {
		k.awaitEvent(k.create(k.pod(name, "exec sleep 1d", writes(script))), "Failed", "Error: couldn't parse env file")
	}
}
