// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// fill gives every field of a structure a value of its own.
func fill(t *testing.T, v reflect.Value, n *int) {
	t.Helper()
	*n++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", *n))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), n)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, n)
			fill(t, value, n)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(*n), int64(*n)).UTC()))
			return
		}
		for _, field := range v.Fields() {
			fill(t, field, n)
		}
	default:
		t.Fatalf("a field of type %s is new to this test", v.Type())
	}
}

func filled[T any](t *testing.T) T {
	t.Helper()
	var out T
	n := 0
	fill(t, reflect.ValueOf(&out).Elem(), &n)
	return out
}

func TestEveryFieldOfFactsCrossesTheLink(t *testing.T) {
	want := filled[host.Facts](t)
	l := connect(t, &fakeHost{facts: &want}, nil)
	got, err := l.client.Facts(t.Context())
	if diff := cmp.Diff(&want, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
}

func TestArgumentsAndAnswersCrossTheLink(t *testing.T) {
	pod := host.Pod{UID: "u", Namespace: "n", Name: "p"}
	cgroup := host.PodCgroup{UID: "u", Class: v1.PodQOSBurstable, Resources: filled[host.CgroupResources](t)}
	hookRequest := host.HookRequest{PodUID: "u", ContainerID: "c", Kind: "preStop", Command: []string{"a", "b c"}, Timeout: 1500 * time.Millisecond}
	hookResult := filled[host.HookResult](t)
	records := []host.ImageRecord{{Key: "a", Content: []byte("1")}, {Key: "b", Content: []byte("2")}}
	fake := &fakeHost{path: "/var/x", records: records, uids: []types.UID{"a", "b"}, tail: []byte("end"), restart: 4, hook: &hookResult}
	usage := filled[host.PodUsage](t)
	fake.usage = &usage
	ready := host.ReadyVolume{Path: "/var/x", OtherGroup: ptr.To[int64](8), Mounted: true}
	fake.group = ready.OtherGroup
	huge := host.Volume{Name: "v", EmptyDir: true, SizeBytes: 1 << 22, HugePageBytes: 2 << 20}
	local := host.Volume{Name: "v", Local: &host.LocalVolume{Path: "/d", Block: true, FSGroup: ptr.To[int64](7), OnRootMismatch: true, Sole: true, MountOptions: []string{"noexec"}}}
	file := host.VolumeFile{Volume: "v", Kind: host.EmptyDirVolume, Path: "a/b"}
	l := connect(t, fake, nil)
	ctx := t.Context()
	memory := host.Volume{Name: "v", EmptyDir: true, Memory: true, SizeBytes: 1 << 20, Mode: ptr.To[uint32](0o700), FSGroup: ptr.To[int64](7)}
	fileSet := filled[host.FileSet](t)
	fileSet.Kind = host.ProjectedVolume
	part := filled[host.SubPath](t)
	part.NoLinks = false // does not cross the link
	part.Kind = host.SecretVolume
	for name, test := range map[string]struct {
		call   func() (any, error)
		asked  []any
		answer any
	}{
		"EnsurePod": {func() (any, error) { return nil, l.client.EnsurePod(ctx, pod, []string{"a", "b"}) }, []any{pod, []string{"a", "b"}}, nil},
		"EnsureVolume emptyDir": {func() (any, error) { return l.client.EnsureVolume(ctx, "u", host.Volume{Name: "v", EmptyDir: true}) },
			[]any{types.UID("u"), host.Volume{Name: "v", EmptyDir: true}}, ready},
		"EnsureVolume hostPath": {func() (any, error) {
			return l.client.EnsureVolume(ctx, "u", host.Volume{Name: "v", HostPath: "/h", HostPathType: "File"})
		}, []any{types.UID("u"), host.Volume{Name: "v", HostPath: "/h", HostPathType: "File"}}, ready},
		"EnsureVolume in memory": {func() (any, error) { return l.client.EnsureVolume(ctx, "u", memory) }, []any{types.UID("u"), memory}, ready},
		"EnsureVolume huge":      {func() (any, error) { return l.client.EnsureVolume(ctx, "u", huge) }, []any{types.UID("u"), huge}, ready},
		"EnsureVolume local":     {func() (any, error) { return l.client.EnsureVolume(ctx, "u", local) }, []any{types.UID("u"), local}, ready},
		"ReadVolumeFile":         {func() (any, error) { return l.client.ReadVolumeFile(ctx, "u", file) }, []any{types.UID("u"), file}, []byte("end")},
		"PodUsage":               {func() (any, error) { return l.client.PodUsage(ctx, pod, true) }, []any{pod, true}, &usage},
		"WriteFiles":             {func() (any, error) { return l.client.WriteFiles(ctx, "u", fileSet) }, []any{types.UID("u"), fileSet}, "/var/x"},
		"EnsureSubPath":          {func() (any, error) { return l.client.EnsureSubPath(ctx, "u", part) }, []any{types.UID("u"), part}, "/var/x"},
		"EnsureTerminationLog":   {func() (any, error) { return l.client.EnsureTerminationLog(ctx, "u", "c", 3) }, []any{types.UID("u"), "c", int32(3)}, "/var/x"},
		"EnsurePodCgroup":        {func() (any, error) { return l.client.EnsurePodCgroup(ctx, cgroup) }, []any{cgroup}, "/var/x"},
		"SetCgroupTiers":         {func() (any, error) { return nil, l.client.SetCgroupTiers(ctx, 77) }, []any{int64(77)}, nil},
		"EnsureIDRange":          {func() (any, error) { return l.client.EnsureIDRange(ctx, "u") }, []any{types.UID("u")}, host.IDRange{First: 1 << 31, Length: 9}},
		"EnsureHostsFile":        {func() (any, error) { return l.client.EnsureHostsFile(ctx, "u", []byte("x")) }, []any{types.UID("u"), []byte("x")}, "/var/x"},
		"RemovePod":              {func() (any, error) { return nil, l.client.RemovePod(ctx, "u", true) }, []any{types.UID("u"), true}, nil},
		"ListPods":               {func() (any, error) { return l.client.ListPods(ctx) }, nil, []types.UID{"a", "b"}},
		"ListImageRecords":       {func() (any, error) { return l.client.ListImageRecords(ctx) }, nil, records},
		"PutImageRecord":         {func() (any, error) { return nil, l.client.PutImageRecord(ctx, records[0]) }, []any{records[0]}, nil},
		"ReadTail":               {func() (any, error) { return l.client.ReadTail(ctx, "/x", 80) }, []any{"/x", int64(80)}, []byte("end")},
		"RestartCount":           {func() (any, error) { return l.client.RestartCount(ctx, pod, "c") }, []any{pod, "c"}, int32(4)},
		"RemoveLogs":             {func() (any, error) { return nil, l.client.RemoveLogs(ctx, "/x/0.log") }, []any{"/x/0.log"}, nil},
		"RunHook":                {func() (any, error) { return l.client.RunHook(ctx, hookRequest) }, []any{hookRequest}, &hookResult},
	} {
		t.Run(name, func(t *testing.T) {
			fake.asked = nil
			answer, err := test.call()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.asked, fake.asked); diff != "" {
				t.Errorf("asked: %s", diff)
			}
			if diff := cmp.Diff(test.answer, answer); diff != "" {
				t.Errorf("answered: %s", diff)
			}
		})
	}
}

func TestHelloTellsVersionAndTime(t *testing.T) {
	l := connect(t, &fakeHost{}, nil)
	resp, err := hostpb.NewHostServiceClient(l.conn).Hello(t.Context(), &hostpb.HelloRequest{Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	if resp.GetVersion() != "v1.2.3" || time.Since(resp.GetTime().AsTime()).Abs() > time.Minute {
		t.Errorf("got %v", resp)
	}
}

// TestWithoutAHostOnlyFactsAreServed: neither pods nor the runtime can be touched.
func TestWithoutAHostOnlyFactsAreServed(t *testing.T) {
	server := NewServer(ServerOptions{Facts: &fakeHost{facts: &host.Facts{MachineID: "m"}}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(ctx, listener) })
	defer wg.Wait()
	defer cancel()
	conn, err := NewConn(ConnOptions{Name: "x", Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", listener.Addr().String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	machine := NewClient(conn, ClientOptions{})
	if facts, err := machine.Facts(t.Context()); err != nil || facts.MachineID != "m" {
		t.Errorf("%+v, %v", facts, err)
	}
	_, sandboxErr := runtimeapi.NewRuntimeServiceClient(conn).RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{})
	for name, err := range map[string]error{
		"a pod's directory": machine.RemovePod(t.Context(), "u", true), "a sandbox": toNative(t.Context(), sandboxErr),
	} {
		if !errdefs.IsNotImplemented(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestErrorClassesSurviveTheLink(t *testing.T) {
	for name, is := range map[string]struct {
		class error
		is    func(error) bool
	}{
		"not found":           {errdefs.ErrNotFound, errdefs.IsNotFound},
		"invalid":             {errdefs.ErrInvalidArgument, errdefs.IsInvalidArgument},
		"denied":              {errdefs.ErrPermissionDenied, errdefs.IsPermissionDenied},
		"failed precondition": {errdefs.ErrFailedPrecondition, errdefs.IsFailedPrecondition},
		"unavailable":         {errdefs.ErrUnavailable, errdefs.IsUnavailable},
		"exhausted":           {errdefs.ErrResourceExhausted, errdefs.IsResourceExhausted},
		"not implemented":     {errdefs.ErrNotImplemented, errdefs.IsNotImplemented},
		"aborted":             {errdefs.ErrAborted, errdefs.IsAborted},
		"exists":              {errdefs.ErrAlreadyExists, errdefs.IsAlreadyExists},
		"of no class":         {errors.New("disk on fire"), errdefs.IsInternal},
		"two errors":          {errors.Join(errdefs.ErrNotFound, errors.New("disk on fire")), errdefs.IsNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			l := connect(t, &fakeHost{err: fmt.Errorf("removing pod %q: %w", "x", is.class)}, nil)
			err := l.client.RemovePod(t.Context(), "u", false)
			if !is.is(err) || strings.Count(err.Error(), "removing pod") != 1 || strings.Contains(err.Error(), "rpc error") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCancelledCallIsTheCallersDoingAndACutOneIsNot(t *testing.T) {
	begun := make(chan struct{})
	h := &blockingHost{begun: begun}
	l := connect(t, h, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	if _, err := l.client.Facts(ctx); !errors.Is(err, context.Canceled) || errdefs.IsUnavailable(err) {
		t.Errorf("cancelled: %v", err)
	}
	go func() { <-begun; l.cut() }()
	if _, err := l.client.Facts(t.Context()); !errdefs.IsUnavailable(err) {
		t.Errorf("cut: %v", err)
	}
}

// blockingHost reads its facts until the call ends.
type blockingHost struct {
	fakeHost
	begun chan struct{}
}

func (h *blockingHost) Facts(ctx context.Context) (*host.Facts, error) {
	h.begun <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// panickingHost panics.
type panickingHost struct{ fakeHost }

func (*panickingHost) Facts(context.Context) (*host.Facts, error) { panic("oops") }

func TestPanicEndsOnlyItsCall(t *testing.T) {
	l := connect(t, &panickingHost{}, nil)
	if _, err := l.client.Facts(t.Context()); !errdefs.IsInternal(err) {
		t.Errorf("got %v", err)
	}
	if _, err := l.client.ListPods(t.Context()); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestCallsAreCountedByCode(t *testing.T) {
	l := connect(t, &fakeHost{err: errdefs.ErrNotFound, facts: &host.Facts{}}, nil)
	_, _ = l.client.ReadTail(t.Context(), "/x", 1)
	_, _ = l.client.ReadTail(t.Context(), "/x", 1)
	want := `
# HELP tombolo_host_calls_total Calls that ended, by service, method and gRPC code.
# TYPE tombolo_host_calls_total counter
tombolo_host_calls_total{code="NotFound",method="ReadTail",service="tombolo.host.v1.HostService"} 2
`
	eventually(t, "both calls are counted", func() bool {
		return testutil.GatherAndCompare(l.metrics, strings.NewReader(want), "tombolo_host_calls_total") == nil
	})
	if n, err := testutil.GatherAndCount(l.metrics, "tombolo_host_call_duration_seconds"); n != 1 || err != nil {
		t.Errorf("durations: %d, %v", n, err)
	}
}

func TestVolumeOfAnUnknownKindIsNotIgnored(t *testing.T) {
	l := connect(t, &fakeHost{}, nil)
	_, err := call(t.Context(), callTimeout, hostpb.NewHostServiceClient(l.conn).EnsureVolume, &hostpb.EnsureVolumeRequest{Uid: "u", Name: "v"})
	if !errdefs.IsNotImplemented(err) || !strings.Contains(err.Error(), `volume "v"`) {
		t.Errorf("got %v", err)
	}
}
