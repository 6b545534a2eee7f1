// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// scripted is a connection that answers every call in the same way and remembers the last one.
type scripted struct {
	grpc.ClientConnInterface
	answer   func(ctx context.Context, reply any) error
	method   string
	request  any
	deadline time.Duration // from the call; 0 if there was none
}

func (s *scripted) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	s.method, s.request, s.deadline = method, args, 0
	if d, ok := ctx.Deadline(); ok {
		s.deadline = time.Until(d)
	}
	if s.answer == nil {
		return nil
	}
	return s.answer(ctx, reply)
}

// requestOf returns the last request, which must be of that type.
func requestOf[T any](t *testing.T, s *scripted) T {
	t.Helper()
	request, ok := s.request.(T)
	if !ok {
		t.Fatalf("the last request was a %T", s.request)
	}
	return request
}

func fails(err error) func(context.Context, any) error {
	return func(context.Context, any) error { return err }
}

func TestDeadlines(t *testing.T) {
	const timeout = time.Minute
	for _, tt := range []struct {
		call string
		do   func(ctx context.Context, c *cri.Client)
		want time.Duration
	}{
		{"Status", func(ctx context.Context, c *cri.Client) { _, _ = c.Status(ctx) }, timeout},
		{"ListContainers", func(ctx context.Context, c *cri.Client) { _, _ = c.ListContainers(ctx, "") }, timeout},
		{"RunPodSandbox", func(ctx context.Context, c *cri.Client) {
			_, _ = c.RunSandbox(ctx, &runtimeapi.PodSandboxConfig{}, "")
		}, 2 * timeout},
		{"StopContainer", func(ctx context.Context, c *cri.Client) { _ = c.StopContainer(ctx, "c", 30*time.Second) }, timeout + 30*time.Second},
		{"PullImage", func(ctx context.Context, c *cri.Client) {
			_, _ = c.PullImage(ctx, &runtimeapi.PullImageRequest{})
		}, 0},
		{"ExecSync", func(ctx context.Context, c *cri.Client) { _, _ = c.ExecSync(ctx, "c", nil, 0) }, 0},
		{"ExecSync", func(ctx context.Context, c *cri.Client) { _, _ = c.ExecSync(ctx, "c", nil, 5*time.Second) }, timeout + 5*time.Second},
	} {
		t.Run(tt.call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := &scripted{}
				tt.do(t.Context(), cri.NewClient(conn, cri.ClientOptions{Timeout: timeout}))
				if !strings.HasSuffix(conn.method, "/"+tt.call) || conn.deadline != tt.want {
					t.Errorf("%s had %s, want %s to have %s", conn.method, conn.deadline, tt.call, tt.want)
				}
			})
		})
	}
}

func TestStopGraceIsRoundedUp(t *testing.T) {
	for grace, want := range map[time.Duration]int64{
		-time.Second: 0, 0: 0, 1: 1, time.Millisecond: 1, time.Second: 1, time.Second + 1: 2, 29500 * time.Millisecond: 30,
		1<<63 - 1: 9223372037,
	} {
		conn := &scripted{}
		if err := cri.NewClient(conn, cri.ClientOptions{}).StopContainer(t.Context(), "c", grace); err != nil {
			t.Fatal(err)
		}
		if got := requestOf[*runtimeapi.StopContainerRequest](t, conn).GetTimeout(); got != want {
			t.Errorf("grace %s became %d s, want %d", grace, got, want)
		}
	}
}

func TestErrorClasses(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		desc    string
		ctx     context.Context
		err     error
		is      func(error) bool
		unknown bool // the outcome is
	}{
		{"a runtime's not found", t.Context(), status.Error(codes.NotFound, "gone"), errdefs.IsNotFound, false},
		{"a runtime's plain error", t.Context(), status.Error(codes.Unknown, "boom"), errdefs.IsUnknown, false},
		{"a refused request", t.Context(), status.Error(codes.FailedPrecondition, "no"), errdefs.IsFailedPrecondition, false},
		{"a broken link", t.Context(), status.Error(codes.Unavailable, "EOF"), errdefs.IsUnavailable, true},
		{"a call cancelled by somebody else", t.Context(), status.Error(codes.Canceled, "closing"), errdefs.IsUnavailable, true},
		{"a call cancelled by the caller", cancelled, status.Error(codes.Canceled, "closing"), errdefs.IsCanceled, true},
		{"the other side's deadline", t.Context(), status.Error(codes.DeadlineExceeded, "late"), errdefs.IsDeadlineExceeded, true},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			_, err := cri.NewClient(&scripted{answer: fails(tt.err)}, cri.ClientOptions{}).ContainerStatus(tt.ctx, "c")
			if !tt.is(err) || cri.OutcomeUnknown(err) != tt.unknown {
				t.Errorf("got %v (outcome unknown %t)", err, cri.OutcomeUnknown(err))
			}
			if _, isStatus := status.FromError(err); isStatus {
				t.Errorf("%v is still a gRPC error", err)
			}
		})
	}
}

func TestPullThatTheRuntimeCallsOffIsItsAnswer(t *testing.T) {
	for text, is := range map[string]func(error) bool{
		`failed to pull and unpack image "a:1": failed to copy: context canceled`: errdefs.IsAborted,
		"context canceled":                                        errdefs.IsAborted,
		"grpc: the client connection is closing":                  errdefs.IsUnavailable,
		"stream terminated by RST_STREAM with error code: CANCEL": errdefs.IsUnavailable,
		"the provided transport is no longer valid to use":        errdefs.IsUnavailable,
	} {
		c := cri.NewClient(&scripted{answer: fails(status.Error(codes.Canceled, text))}, cri.ClientOptions{})
		_, err := c.PullImage(t.Context(), &runtimeapi.PullImageRequest{})
		if !is(err) || errdefs.IsCanceled(err) {
			t.Errorf("%s: got %v", text, err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.PullImage(cancelled, &runtimeapi.PullImageRequest{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s after our own cancellation: got %v", text, err)
		}
	}
}

func TestErrorTextIsTheRuntimesOwn(t *testing.T) {
	const text = "SignatureValidationFailed: image rejected"
	c := cri.NewClient(&scripted{answer: fails(status.Error(codes.Unknown, text))}, cri.ClientOptions{})
	_, err := c.PullImage(t.Context(), &runtimeapi.PullImageRequest{})
	if err == nil || !strings.HasPrefix(err.Error(), text) {
		t.Errorf("PullImage = %v, want an error that begins with %q", err, text)
	}
}

func TestSilentRuntimeEndsWithTheOwnDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := fakecri.Start(t, fakecri.Options{})
		rt.Inject(fakecri.Fault{Hang: true})
		start := time.Now()
		_, err := rt.Client().Version(t.Context())
		if !errdefs.IsDeadlineExceeded(err) || !strings.Contains(err.Error(), "within 2m0s") {
			t.Errorf("Version = %v, want DeadlineExceeded that names the time", err)
		}
		if took := time.Since(start); took != cri.DefaultTimeout {
			t.Errorf("ended after %s, want %s", took, cri.DefaultTimeout)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := rt.Client().Version(ctx); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "2m0s") {
			t.Errorf("Version = %v, want the caller's deadline", err)
		}
	})
}

func TestMissingObjectsAreSuccessfullyRemoved(t *testing.T) {
	c := cri.NewClient(&scripted{answer: fails(status.Error(codes.NotFound, "gone"))}, cri.ClientOptions{})
	for name, do := range map[string]func() error{
		"StopSandbox":     func() error { return c.StopSandbox(t.Context(), "x") },
		"RemoveSandbox":   func() error { return c.RemoveSandbox(t.Context(), "x") },
		"StopContainer":   func() error { return c.StopContainer(t.Context(), "x", time.Second) },
		"RemoveContainer": func() error { return c.RemoveContainer(t.Context(), "x") },
	} {
		if err := do(); err != nil {
			t.Errorf("%s = %v, want success", name, err)
		}
	}
	if err := c.StartContainer(t.Context(), "x"); !errdefs.IsNotFound(err) {
		t.Errorf("StartContainer = %v, want NotFound", err)
	}
	if image, err := c.ImageStatus(t.Context(), "x"); image != nil || err != nil {
		t.Errorf("ImageStatus = %v, %v, want nothing", image, err)
	}
}

func TestEmptyAnswersAreErrors(t *testing.T) {
	c := cri.NewClient(&scripted{}, cri.ClientOptions{})
	for name, do := range map[string]func() error{
		"SandboxStatus":   func() error { _, err := c.SandboxStatus(t.Context(), "x"); return err },
		"ContainerStatus": func() error { _, err := c.ContainerStatus(t.Context(), "x"); return err },
		"RunSandbox":      func() error { _, err := c.RunSandbox(t.Context(), nil, ""); return err },
		"CreateContainer": func() error { _, err := c.CreateContainer(t.Context(), "x", nil, nil); return err },
		"PullImage":       func() error { _, err := c.PullImage(t.Context(), nil); return err },
	} {
		if err := do(); !errdefs.IsInternal(err) {
			t.Errorf("%s = %v, want Internal", name, err)
		}
	}
}

func TestListsSelectByIdentityAndPod(t *testing.T) {
	identity := cri.Identity{Cluster: "c1", Node: "n1"}
	item := func(id, cluster, node, uid string) *runtimeapi.Container {
		return &runtimeapi.Container{Id: id, Labels: map[string]string{
			cri.LabelCluster: cluster, cri.LabelNode: node, cri.LabelPodUID: uid,
		}}
	}
	// This runtime ignores the selector.
	conn := &scripted{answer: func(_ context.Context, reply any) error {
		resp, ok := reply.(*runtimeapi.ListContainersResponse)
		if ok {
			resp.Containers = []*runtimeapi.Container{
				item("ours", "c1", "n1", "a"), item("other-pod", "c1", "n1", "b"), item("other-node", "c1", "n2", "a"),
				item("other-cluster", "c2", "n1", "a"), {Id: "bare"},
			}
		}
		return nil
	}}
	c := cri.NewClient(conn, cri.ClientOptions{Identity: identity})
	for uid, want := range map[types.UID][]string{"a": {"ours"}, "": {"ours", "other-pod"}} {
		list, err := c.ListContainers(t.Context(), uid)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, each := range list {
			got = append(got, each.GetId())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("containers of %q (-want +got):\n%s", uid, diff)
		}
		selector := identity.Labels()
		if uid != "" {
			selector[cri.LabelPodUID] = string(uid)
		}
		if diff := cmp.Diff(selector, requestOf[*runtimeapi.ListContainersRequest](t, conn).GetFilter().GetLabelSelector()); diff != "" {
			t.Errorf("selector (-want +got):\n%s", diff)
		}
	}
	if _, err := c.ListSandboxes(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if got := requestOf[*runtimeapi.ListPodSandboxRequest](t, conn).GetFilter().GetLabelSelector()[cri.LabelPodUID]; got != "a" {
		t.Errorf("sandboxes of pod %q listed, want a", got)
	}
}

func TestLargeListsFitOverGRPC(t *testing.T) {
	rt := fakecri.Start(t, fakecri.Options{})
	rt.Seed(fakecri.Pod{
		UID: "a", Name: "p", Containers: []string{"main"},
		Annotations: map[string]string{"large": strings.Repeat("x", 6<<20)},
	})
	c := cri.NewClient(rt.Dial(t), cri.ClientOptions{Identity: fakecri.DefaultIdentity})
	list, err := c.ListContainers(t.Context(), "")
	if err != nil || len(list) != 1 {
		t.Errorf("ListContainers = %d containers, %v, want 1", len(list), err)
	}
}

func TestMetricsCountOperations(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics := cri.NewMetrics(registry)
	rt := fakecri.Start(t, fakecri.Options{})
	c := cri.NewClient(rt.Conn(), cri.ClientOptions{Identity: fakecri.DefaultIdentity, Observer: metrics})
	if _, err := c.ListSandboxes(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ContainerStatus(t.Context(), "none"); err == nil {
		t.Fatal("the status of nothing succeeded")
	}
	want := `
# HELP kubelet_runtime_operations_errors_total Cumulative number of runtime operations that ended with an error, by operation type.
# TYPE kubelet_runtime_operations_errors_total counter
kubelet_runtime_operations_errors_total{operation_type="container_status"} 1
# HELP kubelet_runtime_operations_total Cumulative number of runtime operations by operation type.
# TYPE kubelet_runtime_operations_total counter
kubelet_runtime_operations_total{operation_type="container_status"} 1
kubelet_runtime_operations_total{operation_type="list_podsandbox"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"kubelet_runtime_operations_total", "kubelet_runtime_operations_errors_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "kubelet_runtime_operations_duration_seconds"); n != 2 || err != nil {
		t.Errorf("%d durations, %v, want 2", n, err)
	}
}
