// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// slowBackend is a runtime whose calls take until they are released. A call that is cancelled before is counted.
type slowBackend struct {
	backend
	release   chan struct{}
	mu        sync.Mutex
	begun     map[string]int
	cancelled map[string]int
}

func newSlowBackend() *slowBackend {
	b := &slowBackend{release: make(chan struct{}), begun: map[string]int{}, cancelled: map[string]int{}}
	b.answer = func(method string, stream grpc.ServerStream) error {
		b.count(b.begun, method)
		select {
		case <-b.release:
			return stream.SendMsg(&runtimeapi.RunPodSandboxResponse{PodSandboxId: "answer"})
		case <-stream.Context().Done():
			b.count(b.cancelled, method)
			return stream.Context().Err()
		}
	}
	return b
}

func (b *slowBackend) count(m map[string]int, method string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m[method]++
}

func (b *slowBackend) counts(method string) (begun, cancelled int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.begun[method], b.cancelled[method]
}

// effectCalls are the calls that must outlive their callers.
func effectCalls(runtime runtimeapi.RuntimeServiceClient) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"RunPodSandbox": func(ctx context.Context) error {
			return second(runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{}))
		},
		"CreateContainer": func(ctx context.Context) error {
			return second(runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{}))
		},
		"StartContainer": func(ctx context.Context) error {
			return second(runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{}))
		},
		"StopContainer": func(ctx context.Context) error {
			return second(runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{}))
		},
		"RemoveContainer": func(ctx context.Context) error {
			return second(runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{}))
		},
		"StopPodSandbox": func(ctx context.Context) error {
			return second(runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{}))
		},
		"RemovePodSandbox": func(ctx context.Context) error {
			return second(runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{}))
		},
	}
}

// running is how many calls the server works on.
func (l *link) running(t *testing.T) float64 {
	t.Helper()
	families, err := l.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for _, family := range families {
		if family.GetName() == "tombolo_host_calls_running" {
			for _, m := range family.GetMetric() {
				sum += m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func TestEffectsOutliveTheirCallersAndAreJoinedByTheNext(t *testing.T) {
	for method := range effectCalls(nil) {
		t.Run(method, func(t *testing.T) {
			b := newSlowBackend()
			l := connect(t, &fakeHost{}, startBackend(t, &b.backend))
			call := effectCalls(runtimeapi.NewRuntimeServiceClient(l.conn))[method]
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() { gone <- call(ctx) }()
			eventually(t, "the call reaches the runtime", func() bool { n, _ := b.counts(method); return n == 1 })
			l.cut() // the node process dies
			if err := <-gone; status.Code(err) != codes.Unavailable {
				t.Errorf("the caller sees %v", err)
			}
			cancel()
			eventually(t, "the host gives the first caller up", func() bool { return l.running(t) == 0 })
			again := make(chan error, 1)
			go func() { again <- call(t.Context()) }()
			eventually(t, "the second call reaches the host", func() bool { return l.running(t) == 1 })
			time.Sleep(100 * time.Millisecond) // in which a cancellation or a second call would arrive
			close(b.release)
			if err := <-again; err != nil {
				t.Errorf("the second caller sees %v", err)
			}
			if begun, cancelled := b.counts(method); begun != 1 || cancelled != 0 {
				t.Errorf("the runtime saw %d calls, %d of them cancelled, want one that is not", begun, cancelled)
			}
		})
	}
}

func TestPullAndQuestionsEndWithTheirCallers(t *testing.T) {
	b := newSlowBackend()
	l := connect(t, &fakeHost{}, startBackend(t, &b.backend))
	runtime, images := runtimeapi.NewRuntimeServiceClient(l.conn), runtimeapi.NewImageServiceClient(l.conn)
	for method, call := range map[string]func(context.Context) error{
		"PullImage": func(ctx context.Context) error {
			return second(images.PullImage(ctx, &runtimeapi.PullImageRequest{}))
		},
		"ContainerStatus": func(ctx context.Context) error {
			return second(runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{}))
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() { gone <- call(ctx) }()
		eventually(t, "the call reaches the runtime", func() bool { n, _ := b.counts(method); return n == 1 })
		cancel()
		<-gone
		eventually(t, method+" ends", func() bool { _, n := b.counts(method); return n == 1 })
	}
}

func TestJoinedCallIsLeftByACallerWhoseTimeIsUp(t *testing.T) {
	b := newSlowBackend()
	l := connect(t, &fakeHost{}, startBackend(t, &b.backend))
	runtime := runtimeapi.NewRuntimeServiceClient(l.conn)
	first := make(chan error, 1)
	go func() {
		first <- second(runtime.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: "c"}))
	}()
	eventually(t, "the call reaches the runtime", func() bool { n, _ := b.counts("StartContainer"); return n == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: "c"}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the second caller sees %v", err)
	}
	close(b.release)
	if err := <-first; err != nil {
		t.Errorf("the first caller sees %v", err)
	}
}

func TestDifferentEffectsDoNotJoin(t *testing.T) {
	b := newSlowBackend()
	l := connect(t, &fakeHost{}, startBackend(t, &b.backend))
	runtime := runtimeapi.NewRuntimeServiceClient(l.conn)
	metadata := func(uid string, attempt uint32) *runtimeapi.RunPodSandboxRequest {
		return &runtimeapi.RunPodSandboxRequest{Config: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Uid: uid, Attempt: attempt}}}
	}
	container := func(sandbox, name string, attempt uint32) *runtimeapi.CreateContainerRequest {
		return &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: name, Attempt: attempt}}}
	}
	var wg sync.WaitGroup
	for _, r := range []*runtimeapi.RunPodSandboxRequest{metadata("a", 0), metadata("a", 1), metadata("b", 0)} {
		wg.Go(func() { _, _ = runtime.RunPodSandbox(t.Context(), r) })
	}
	for _, r := range []*runtimeapi.CreateContainerRequest{container("s", "a", 0), container("s", "a", 1), container("s", "b", 0), container("t", "a", 0)} {
		wg.Go(func() { _, _ = runtime.CreateContainer(t.Context(), r) })
	}
	for _, r := range []*runtimeapi.StopContainerRequest{{ContainerId: "c", Timeout: 30}, {ContainerId: "c", Timeout: 2}, {ContainerId: "d", Timeout: 2}} {
		wg.Go(func() { _, _ = runtime.StopContainer(t.Context(), r) })
	}
	eventually(t, "all calls reach the runtime", func() bool {
		run, _ := b.counts("RunPodSandbox")
		create, _ := b.counts("CreateContainer")
		stop, _ := b.counts("StopContainer")
		return run == 3 && create == 4 && stop == 3
	})
	close(b.release)
	wg.Wait()
}

func TestServerThatStopsEndsItsEffects(t *testing.T) {
	b := newSlowBackend()
	l := connect(t, &fakeHost{}, startBackend(t, &b.backend))
	runtime := runtimeapi.NewRuntimeServiceClient(l.conn)
	ended := make(chan error, 1)
	go func() { ended <- second(runtime.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{})) }()
	eventually(t, "the call reaches the runtime", func() bool { n, _ := b.counts("StartContainer"); return n == 1 })
	l.cut()
	<-ended
	begin := time.Now()
	l.stop()
	if took := time.Since(begin); took > stopTimeout+5*time.Second {
		t.Errorf("the server stopped after %v", took)
	}
	eventually(t, "the call is cancelled", func() bool { _, n := b.counts("StartContainer"); return n == 1 })
}

func TestNoEffectBeginsAfterTheServerHasStopped(t *testing.T) {
	e := newEffects()
	e.stop(t.Context())
	_, err := perform(t.Context(), e, "k", &runtimeapi.StartContainerRequest{},
		func(context.Context, *runtimeapi.StartContainerRequest, ...grpc.CallOption) (*runtimeapi.StartContainerResponse, error) {
			return nil, fmt.Errorf("begun")
		})
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "is stopping") {
		t.Errorf("got %v", err)
	}
}
