// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/test/images"
	"github.com/tombolo-dev/tombolo/test/nodes"
)

const (
	namespace     = "default"
	containerName = "idle"
	nodeLabel     = "bench-node"
)

// node is a target whose pods come from the API.
type node struct {
	*nodes.Node
	client kubernetes.Interface
	audit  *auditLog
}

var _ target = (*node)(nil)

func (n *node) name() string { return string(n.Kind) }

// pod is bound to the node, so that the scheduler is not measured.
func (n *node) pod(name string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{nodeLabel: n.Name()}},
		Spec: v1.PodSpec{
			NodeName: n.Name(), TerminationGracePeriodSeconds: ptr.To[int64](graceSeconds),
			EnableServiceLinks: ptr.To(false), AutomountServiceAccountToken: ptr.To(false),
			Containers: []v1.Container{{Name: containerName, Image: images.Pause, ImagePullPolicy: v1.PullIfNotPresent}},
		},
	}
}

func (n *node) start(ctx context.Context, names []string) ([]time.Duration, error) {
	return n.awaitEach(ctx, names, func(ctx context.Context, name string) error {
		_, err := n.client.CoreV1().Pods(namespace).Create(ctx, n.pod(name), metav1.CreateOptions{})
		return err
	}, func(e watch.Event, pod *v1.Pod) bool { return e.Type != watch.Deleted && ready(pod) })
}

func (n *node) remove(ctx context.Context, names []string) ([]time.Duration, error) {
	return n.awaitEach(ctx, names, func(ctx context.Context, name string) error {
		return n.client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}, func(e watch.Event, _ *v1.Pod) bool { return e.Type == watch.Deleted })
}

// awaitEach does something with all pods at once and returns when a watcher has seen what is awaited of each, with the times
// since the beginning.
func (n *node) awaitEach(
	ctx context.Context, names []string, do func(context.Context, string) error, seen func(watch.Event, *v1.Pod) bool,
) ([]time.Duration, error) {
	events, err := n.watch(ctx)
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	begin := time.Now()
	done := make(chan error, 1)
	go func() {
		_, err := each(ctx, names, do)
		done <- err
	}()
	var took []time.Duration
	var failed error
	for waiting := slices.Clone(names); len(waiting) > 0 && failed == nil; {
		var name string
		name, failed = nextSeen(ctx, events, seen)
		if i := slices.Index(waiting, name); i >= 0 {
			took = append(took, time.Since(begin))
			waiting = slices.Delete(waiting, i, i+1)
		}
	}
	return took, errors.Join(failed, <-done)
}

// watch watches the pods of the node from now on.
func (n *node) watch(ctx context.Context) (watch.Interface, error) {
	selector := metav1.ListOptions{LabelSelector: nodeLabel + "=" + n.Name()}
	list, err := n.client.CoreV1().Pods(namespace).List(ctx, selector)
	if err != nil {
		return nil, err
	}
	selector.ResourceVersion = list.ResourceVersion
	return n.client.CoreV1().Pods(namespace).Watch(ctx, selector)
}

// nextSeen returns the name of the next pod of which seen is true.
func nextSeen(ctx context.Context, events watch.Interface, seen func(watch.Event, *v1.Pod) bool) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case e, open := <-events.ResultChan():
			pod, ok := e.Object.(*v1.Pod)
			switch {
			case !open || !ok:
				return "", fmt.Errorf("the watch of pods ended: %v", e.Object)
			case pod.Status.Phase == v1.PodFailed:
				return "", fmt.Errorf("pod %s failed: %s %s", pod.Name, pod.Status.Reason, pod.Status.Message)
			case seen(e, pod):
				return pod.Name, nil
			}
		}
	}
}

func ready(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}

func (n *node) crash(ctx context.Context, name string) (time.Duration, error) {
	pod, err := n.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if len(pod.Status.ContainerStatuses) != 1 {
		return 0, fmt.Errorf("pod %s has no running container", name)
	}
	was := pod.Status.ContainerStatuses[0]
	pid, err := n.containerPID(ctx, was.ContainerID)
	if err != nil {
		return 0, err
	}
	kill := func(context.Context, string) error { return syscall.Kill(pid, syscall.SIGKILL) }
	took, err := n.awaitEach(ctx, []string{name}, kill, func(_ watch.Event, pod *v1.Pod) bool {
		is := pod.Status.ContainerStatuses
		return len(is) == 1 && is[0].State.Running != nil && is[0].RestartCount > was.RestartCount
	})
	if err != nil {
		return 0, err
	}
	return took[0], nil
}

// containerPID asks containerd for the process of a container.
func (n *node) containerPID(ctx context.Context, id string) (int, error) {
	connection, err := dialCRI(n.Host)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	const scheme = "containerd://"
	if len(id) <= len(scheme) {
		return 0, fmt.Errorf("container id %q", id)
	}
	status, err := runtimeapi.NewRuntimeServiceClient(connection).ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{
		ContainerId: id[len(scheme):], Verbose: true,
	})
	if err != nil {
		return 0, err
	}
	var info struct {
		PID int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(status.Info["info"]), &info); err != nil || info.PID <= 1 {
		return 0, fmt.Errorf("containerd names no process of container %s: %w", id, err)
	}
	return info.PID, nil
}

func (n *node) usage() (usage, error) {
	var u usage
	for _, p := range n.Processes {
		cpu, memory, err := processUsage(p.PID())
		if err != nil {
			return usage{}, err
		}
		u.cpu += cpu
		u.memory += memory
	}
	var err error
	u.writes, u.events, err = n.audit.writes("system:node:" + n.Name())
	return u, err
}
