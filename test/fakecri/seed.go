// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"fmt"
	"maps"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
)

// Exit ends a live container with the code ("Completed" for 0, else "Error").
func (r *Runtime) Exit(id string, code int32) { r.ExitReason(id, code, "") }

// ExitReason ends a live container with the code and reason, such as 137 and "OOMKilled".
func (r *Runtime) ExitReason(id string, code int32, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	c := r.containers[id]
	if c == nil || !c.alive {
		panic(fmt.Sprintf("fakecri: no live container %s", id))
	}
	r.finish(c, r.clock.Now(), code, reason)
	r.wake()
}

// MarkOOM says of a container that ended that the kernel killed it for want of memory, as a runtime that learns of it late.
func (r *Runtime) MarkOOM(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	if c := r.containers[id]; c != nil && !c.finished.IsZero() {
		c.reason = "OOMKilled"
		r.wake()
	}
}

// Lose makes a container UNKNOWN with no creation time, as after a crash of containerd. Its process lives on until it
// is stopped.
func (r *Runtime) Lose(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.containers[id]
	if c == nil {
		panic(fmt.Sprintf("fakecri: no container %s", id))
	}
	c.lost = true
	r.wake()
}

// KillSandbox makes a sandbox and everything in it die, as when its pause process is killed or the host rebooted.
func (r *Runtime) KillSandbox(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	box := r.sandboxes[id]
	if box == nil {
		panic(fmt.Sprintf("fakecri: no sandbox %s", id))
	}
	box.ready = false
	for _, c := range r.containersOf(id) {
		if c.alive {
			r.finish(c, r.clock.Now(), exitKilled, "")
		}
	}
	r.wake()
}

// Forget removes all records of a pod behind the node's back, as when somebody wiped the runtime's state.
func (r *Runtime) Forget(uid types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, c := range r.containers {
		if c.uid() == uid {
			delete(r.containers, id)
		}
	}
	for id, s := range r.sandboxes {
		if s.uid() == uid {
			delete(r.sandboxes, id)
		}
	}
	r.wake()
}

// Pod is what Seed makes.
type Pod struct {
	UID       types.UID
	Name      string
	Namespace string // "default" if empty
	Attempt   uint32
	// Containers are created and started, in this order.
	Containers []string
	// Identity owns it, that of the runtime if empty: another one makes it foreign.
	Identity cri.Identity
	// Annotations are added to those of the containers.
	Annotations map[string]string
}

// Seeded are the ids of what Seed made. Containers are keyed by name.
type Seeded struct {
	Sandbox    string
	Containers map[string]string
}

// Seed makes a pod run, without going through the services. A pod seeded again with a higher attempt gets a second
// sandbox with containers of that attempt in it.
func (r *Runtime) Seed(p Pod) Seeded {
	r.mu.Lock()
	defer r.mu.Unlock()
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	if p.Identity == (cri.Identity{}) {
		p.Identity = r.identity
	}
	box := &sandbox{
		id: r.nextID("5a"), ready: true, created: r.clock.Now(), ip: fmt.Sprintf("10.88.0.%d", r.serial%250+2),
		config: &runtimeapi.PodSandboxConfig{
			Metadata:     &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: string(p.UID), Attempt: p.Attempt},
			LogDirectory: fmt.Sprintf("/var/log/pods/%s_%s_%s", p.Namespace, p.Name, p.UID),
			Labels:       p.labels(""),
		},
	}
	r.sandboxes[box.id] = box
	seeded := Seeded{Sandbox: box.id, Containers: map[string]string{}}
	for _, name := range p.Containers {
		c := r.seedContainer(p, box, name)
		seeded.Containers[name] = c.id
	}
	r.wake()
	return seeded
}

func (r *Runtime) seedContainer(p Pod, box *sandbox, name string) *container {
	annotations := map[string]string{
		cri.AnnotationHash:                     "0",
		cri.AnnotationRestartCount:             strconv.FormatUint(uint64(p.Attempt), 10),
		cri.AnnotationTerminationMessagePath:   "/dev/termination-log",
		cri.AnnotationTerminationMessagePolicy: "File",
	}
	maps.Copy(annotations, p.Annotations)
	c := &container{
		id: r.nextID("c0"), box: box, image: r.addImage("registry.test/" + name + ":1"), created: r.clock.Now(),
		config: &runtimeapi.ContainerConfig{
			Metadata:    &runtimeapi.ContainerMetadata{Name: name, Attempt: p.Attempt},
			Image:       &runtimeapi.ImageSpec{Image: "registry.test/" + name + ":1"},
			Labels:      p.labels(name),
			Annotations: annotations,
			LogPath:     fmt.Sprintf("%s/%d.log", name, p.Attempt),
		},
	}
	c.behaviour = r.behaviour(Selector{UID: p.UID, Container: name, ID: c.id, Image: c.config.GetImage().GetImage()})
	r.containers[c.id] = c
	r.noteAttempt(c)
	r.start(c)
	return c
}

func (p Pod) labels(container string) map[string]string {
	labels := p.Identity.Labels()
	labels[cri.LabelPodName] = p.Name
	labels[cri.LabelPodNamespace] = p.Namespace
	labels[cri.LabelPodUID] = string(p.UID)
	if container != "" {
		labels[cri.LabelContainerName] = container
	}
	return labels
}

// ForgetContainer removes the record of one container behind the node's back, as crictl rm does.
func (r *Runtime) ForgetContainer(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil {
		delete(r.containers, id)
		r.tellOf(c, Event{Kind: ContainerRemoved})
		r.wake()
	}
}

// SetSkew makes the host's clock jump: from now on it is wrong by that much. Times that it noted before stay.
func (r *Runtime) SetSkew(skew time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.steps = append(r.steps, clockStep{r.clock.Now(), skew})
	r.wake()
}

// clockStep is a jump of the host's clock.
type clockStep struct {
	at   time.Time
	skew time.Duration
}

// LastAttempt returns the highest attempt that was ever made of a container, whether its record is still there or not: the
// number of its last log. ok is false if there was none.
func (r *Runtime) LastAttempt(uid types.UID, container string) (attempt uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	attempt, ok = r.attempts[attemptKey{uid, container}]
	return attempt, ok
}

type attemptKey struct {
	uid  types.UID
	name string
}

// noteAttempt notes that a record was made. The lock is held.
func (r *Runtime) noteAttempt(c *container) {
	key := attemptKey{c.uid(), c.name()}
	r.attempts[key] = max(r.attempts[key], c.config.GetMetadata().GetAttempt())
}
