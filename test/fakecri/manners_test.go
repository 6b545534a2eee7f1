// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
	"github.com/tombolo-dev/tombolo/test/images"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

// TestManners holds the runtime in memory to what it claims to imitate: the same checks run on it and, as an end-to-end
// test, on a real containerd. What the lifecycle relies on stands here.
func TestManners(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{Tolerate: []fakecri.ViolationKind{fakecri.KilledBySandbox, fakecri.RemovedRunning}})
		rt.AddImages(images.Busybox)
		ok := int32(0)
		rt.Behave(fakecri.Selector{Container: stubborn}, fakecri.Behaviour{OnTERM: fakecri.TERM{Ignore: true}})
		rt.Behave(fakecri.Selector{Container: polite}, fakecri.Behaviour{OnTERM: fakecri.TERM{ExitCode: &ok}})
		rt.Behave(fakecri.Selector{Container: failing}, fakecri.Behaviour{Exits: true, ExitCode: 3})
		rt.Behave(fakecri.Selector{Container: broken}, fakecri.Behaviour{StartError: "no such program"})
		checkManners(t, rt.Client(), t.TempDir())
	})
	t.Run("containerd", func(t *testing.T) {
		cluster := testbed.StartT(t, testbed.Options{})
		host, err := cluster.AddHost(t.Context(), "manners", testbed.HostOptions{})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient("unix://"+host.ContainerdSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		checkManners(t, cri.NewClient(conn, cri.ClientOptions{Identity: fakecri.DefaultIdentity}), t.TempDir())
	})
}

// The containers of the checks. On containerd they are shells.
const (
	stubborn = "stubborn" // ignores the stop signal
	polite   = "polite"   // ends with 0 on it
	failing  = "failing"  // ends with 3 by itself
	broken   = "broken"   // cannot be started
)

var programs = map[string][]string{
	stubborn: {"sh", "-c", "trap '' TERM; while :; do sleep 1; done"},
	polite:   {"sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.1; done"},
	failing:  {"sh", "-c", "exit 3"},
	broken:   {"/no/such/program"},
}

// guest is a pod on a runtime under check.
type guest struct {
	t       *testing.T
	c       *cri.Client
	pod     *v1.Pod
	logs    string
	box     *runtimeapi.PodSandboxConfig
	sandbox string
}

// newGuest makes the pod's first sandbox.
func newGuest(t *testing.T, c *cri.Client, logs string) *guest {
	t.Helper()
	uid := types.UID(strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name())))
	g := &guest{t: t, c: c, logs: logs, pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		UID: uid, Name: "p", Namespace: "default", Annotations: map[string]string{"motto": "Grüße 🏝️"},
	}}}
	for _, name := range []string{stubborn, polite, failing, broken} {
		g.pod.Spec.Containers = append(g.pod.Spec.Containers, v1.Container{Name: name, Image: images.Busybox})
	}
	t.Cleanup(g.remove)
	if err := g.run(0); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *guest) run(attempt uint32) (err error) {
	g.box, err = cri.SandboxConfig(cri.SandboxInput{
		Pod: g.pod, Attempt: attempt, Identity: fakecri.DefaultIdentity, PodLogsDir: g.logs, Hostname: cri.Hostname(g.pod),
	})
	if err != nil {
		g.t.Fatal(err)
	}
	id, err := g.c.RunSandbox(g.t.Context(), g.box, "")
	if err == nil {
		g.sandbox = id
	}
	return err
}

func (g *guest) create(name string, restart int32) (string, error) {
	g.t.Helper()
	image, err := g.c.ImageStatus(g.t.Context(), images.Busybox)
	if err != nil || image == nil {
		g.t.Fatalf("image %v, %v", image, err)
	}
	for i := range g.pod.Spec.Containers {
		if g.pod.Spec.Containers[i].Name != name {
			continue
		}
		cfg, err := cri.ContainerConfig(cri.ContainerInput{
			Pod: g.pod, Container: &g.pod.Spec.Containers[i], RestartCount: restart, ImageRef: image.GetId(),
			Command: programs[name], Identity: fakecri.DefaultIdentity, NodeMemoryBytes: 1 << 33,
			Env: []*runtimeapi.KeyValue{{Key: "MOTTO", Value: []byte("Grüße 🏝️")}},
		})
		if err != nil {
			g.t.Fatal(err)
		}
		return g.c.CreateContainer(g.t.Context(), g.sandbox, cfg, g.box)
	}
	panic("no container " + name)
}

func (g *guest) start(name string) string {
	g.t.Helper()
	id, err := g.create(name, 0)
	if err != nil {
		g.t.Fatal(err)
	}
	if err := g.c.StartContainer(g.t.Context(), id); err != nil {
		g.t.Fatal(err)
	}
	return id
}

func (g *guest) status(id string) cri.ContainerStatus {
	g.t.Helper()
	st, err := g.c.ContainerStatus(g.t.Context(), id)
	if err != nil {
		g.t.Fatal(err)
	}
	return cri.ContainerFacts(st)
}

// ended waits for a container to end and checks how it did.
func (g *guest) ended(id string, code int32, reason string) {
	g.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		st := g.status(id)
		if st.State == cri.ContainerExited {
			if st.ExitCode != code || st.Reason != reason || st.FinishedAt.IsZero() {
				g.t.Errorf("ended with %d %s at %s, want %d %s", st.ExitCode, st.Reason, st.FinishedAt, code, reason)
			}
			return
		}
		if time.Now().After(deadline) {
			g.t.Fatalf("still %s", st.State)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// remove takes everything of the pod away.
func (g *guest) remove() {
	ctx := context.WithoutCancel(g.t.Context())
	boxes, err := g.c.ListSandboxes(ctx, g.pod.UID)
	if err != nil {
		g.t.Error(err)
	}
	for _, box := range boxes {
		if err := g.c.RemoveSandbox(ctx, box.GetId()); err != nil {
			g.t.Error(err)
		}
	}
}

func checkManners(t *testing.T, c *cri.Client, logs string) {
	for name, check := range map[string]func(t *testing.T, g *guest){
		"names are reserved":             checkNames,
		"what is missing is NotFound":    checkMissing,
		"ends are told":                  checkEnds,
		"stop kills after grace":         checkGrace,
		"abandoned stop does not kill":   checkAbandonedStop,
		"stopping a sandbox ends it all": checkStopSandbox,
		"objects tell whose they are":    checkFacts,
	} {
		t.Run(name, func(t *testing.T) { check(t, newGuest(t, c, logs)) })
	}
}

func checkNames(t *testing.T, g *guest) {
	if err := g.run(0); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "is reserved for") {
		t.Errorf("a second sandbox of one attempt = %v, want its name to be reserved", err)
	}
	id := g.start(polite)
	if _, err := g.create(polite, 0); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "is reserved for") {
		t.Errorf("a second container of one restart = %v, want its name to be reserved", err)
	}
	if err := g.c.StopContainer(t.Context(), id, time.Second); err != nil {
		t.Error(err)
	}
	if err := g.c.RemoveContainer(t.Context(), id); err != nil {
		t.Error(err)
	}
	if _, err := g.create(polite, 0); err != nil {
		t.Errorf("a container after the first of that name was removed: %v", err)
	}
	if err := g.c.StopSandbox(t.Context(), g.sandbox); err != nil {
		t.Error(err)
	}
	if err := g.run(1); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
}

func checkMissing(t *testing.T, g *guest) {
	const id = "nothing"
	if _, err := g.c.SandboxStatus(t.Context(), id); !errdefs.IsNotFound(err) {
		t.Errorf("SandboxStatus = %v, want NotFound", err)
	}
	if _, err := g.c.ContainerStatus(t.Context(), id); !errdefs.IsNotFound(err) {
		t.Errorf("ContainerStatus = %v, want NotFound", err)
	}
	if err := g.c.StartContainer(t.Context(), id); !errdefs.IsNotFound(err) {
		t.Errorf("StartContainer = %v, want NotFound", err)
	}
	if _, err := g.c.ExecSync(t.Context(), id, []string{"true"}, time.Second); !errdefs.IsNotFound(err) {
		t.Errorf("ExecSync = %v, want NotFound", err)
	}
	if image, err := g.c.ImageStatus(t.Context(), "registry.test/none:1"); image != nil || err != nil {
		t.Errorf("ImageStatus = %v, %v, want nothing", image, err)
	}
	for what, err := range map[string]error{
		"StopContainer":   g.c.StopContainer(t.Context(), id, time.Second),
		"RemoveContainer": g.c.RemoveContainer(t.Context(), id),
		"StopSandbox":     g.c.StopSandbox(t.Context(), id),
		"RemoveSandbox":   g.c.RemoveSandbox(t.Context(), id),
	} {
		if err != nil {
			t.Errorf("%s of nothing = %v, want success", what, err)
		}
	}
}

func checkEnds(t *testing.T, g *guest) {
	g.ended(g.start(failing), 3, "Error")
	id := g.start(polite)
	if err := g.c.StopContainer(t.Context(), id, 20*time.Second); err != nil {
		t.Error(err)
	}
	g.ended(id, 0, "Completed")
	if err := g.c.StopContainer(t.Context(), id, 20*time.Second); err != nil {
		t.Errorf("stopping an ended container: %v", err)
	}
	id, err := g.create(broken, 0)
	if err != nil {
		t.Fatal(err)
	}
	if st := g.status(id); st.State != cri.ContainerCreated || !st.StartedAt.IsZero() {
		t.Errorf("a created container is %s, started at %s", st.State, st.StartedAt)
	}
	if err := g.c.StartContainer(t.Context(), id); err == nil {
		t.Error("a program that is missing was started")
	}
	g.ended(id, 128, "StartError")
}

func checkGrace(t *testing.T, g *guest) {
	id := g.start(stubborn)
	begin := time.Now()
	if err := g.c.StopContainer(t.Context(), id, time.Second); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took < time.Second {
		t.Errorf("killed after %s, want 1s of grace", took)
	}
	g.ended(id, 137, "Error")
}

func checkAbandonedStop(t *testing.T, g *guest) {
	id := g.start(stubborn)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := g.c.StopContainer(ctx, id, time.Second); !errdefs.IsDeadlineExceeded(err) {
		t.Errorf("StopContainer = %v, want the caller's deadline", err)
	}
	time.Sleep(2 * time.Second)
	if st := g.status(id); st.State != cri.ContainerRunning {
		t.Errorf("the container is %s after its stop was abandoned, want running", st.State)
	}
	if err := g.c.StopContainer(t.Context(), id, time.Second); err != nil {
		t.Error(err)
	}
	g.ended(id, 137, "Error")
}

func checkStopSandbox(t *testing.T, g *guest) {
	id := g.start(stubborn)
	before := g.sandboxFacts()
	if !before.Ready || len(before.IPs) != 1 {
		t.Errorf("sandbox %+v, want it ready with an address", before)
	}
	for range 2 {
		if err := g.c.StopSandbox(t.Context(), g.sandbox); err != nil {
			t.Error(err)
		}
	}
	g.ended(id, 137, "Error")
	if after := g.sandboxFacts(); after.Ready || len(after.IPs) != 0 || !after.HasNetwork {
		t.Errorf("sandbox %+v, want it not ready and without addresses", after)
	}
	if _, err := g.create(polite, 0); err == nil {
		t.Error("a container was created in a stopped sandbox")
	}
	if err := g.c.RemoveSandbox(t.Context(), g.sandbox); err != nil {
		t.Error(err)
	}
	if list, err := g.c.ListContainers(t.Context(), g.pod.UID); err != nil || len(list) != 0 {
		t.Errorf("%d containers, %v, want them to go with their sandbox", len(list), err)
	}
}

func (g *guest) sandboxFacts() cri.SandboxStatus {
	g.t.Helper()
	st, err := g.c.SandboxStatus(g.t.Context(), g.sandbox)
	if err != nil {
		g.t.Fatal(err)
	}
	return cri.SandboxFacts(st)
}

func checkFacts(t *testing.T, g *guest) {
	id := g.start(polite)
	st := g.status(id)
	restored, err := cri.RestorePod(cri.AssemblePodStatus(g.pod.UID, "p", "default", nil, []cri.ContainerStatus{st}, time.Now()))
	if err != nil || len(restored.Spec.Containers) != 1 {
		t.Errorf("restored %+v, %v", restored, err)
	}
	image, err := g.c.ImageStatus(t.Context(), images.Busybox)
	if err != nil {
		t.Fatal(err)
	}
	// The name that the user gave is lost: of several names of an image the first one is told.
	if st.Image != image.GetRepoTags()[0] || st.ImageID != image.GetRepoDigests()[0] || st.Hash != cri.ContainerHash(&g.pod.Spec.Containers[1]) || st.User == nil {
		t.Errorf("container %+v, want image, hash and user", st)
	}
	if want := cri.LogDirectory(g.logs, g.pod) + "/" + cri.ContainerLogPath(polite, 0); st.LogPath != want {
		t.Errorf("log path %s, want %s", st.LogPath, want)
	}
	boxes, err := g.c.ListSandboxes(t.Context(), g.pod.UID)
	if err != nil || len(boxes) != 1 || boxes[0].GetAnnotations()["motto"] != "Grüße 🏝️" {
		t.Errorf("sandboxes %v, %v, want one with its annotation", boxes, err)
	}
	list, err := g.c.ListContainers(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range list {
		found = found || (c.GetId() == id && c.GetPodSandboxId() == g.sandbox)
	}
	if !found {
		t.Error(fmt.Sprint("container ", id, " is not in the list"))
	}
}
