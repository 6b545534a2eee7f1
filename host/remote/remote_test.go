// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeHost records what it was asked and answers what a test wants.
type fakeHost struct {
	group *int64
	mu    sync.Mutex
	asked []any

	err     error
	facts   *host.Facts
	path    string
	uids    []types.UID
	tail    []byte
	usage   *host.PodUsage
	records []host.ImageRecord
	restart int32
	hook    *host.HookResult
	probe   *host.ProbeResult
	watch   func(ctx context.Context, changed func(host.PodsChanged) error) error
	readLog func(ctx context.Context, req host.LogRequest, stdout, stderr io.Writer) error
	dial    func(ctx context.Context) (net.Conn, error)
}

var _ host.Host = (*fakeHost)(nil)

func (h *fakeHost) note(args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, args...)
}

func (h *fakeHost) Facts(context.Context) (*host.Facts, error) { return h.facts, h.err }

func (h *fakeHost) EnsurePod(_ context.Context, pod host.Pod, containers []string) error {
	h.note(pod, containers)
	return h.err
}

func (h *fakeHost) EnsureVolume(_ context.Context, uid types.UID, volume host.Volume) (host.ReadyVolume, error) {
	h.note(uid, volume)
	return host.ReadyVolume{Path: h.path, OtherGroup: h.group, Mounted: h.group != nil}, h.err
}

func (h *fakeHost) WriteFiles(_ context.Context, uid types.UID, set host.FileSet) (string, error) {
	h.note(uid, set)
	return h.path, h.err
}

func (h *fakeHost) EnsureSubPath(_ context.Context, uid types.UID, part host.SubPath) (string, error) {
	h.note(uid, part)
	return h.path, h.err
}

func (h *fakeHost) ReadVolumeFile(_ context.Context, uid types.UID, file host.VolumeFile) ([]byte, error) {
	h.note(uid, file)
	return h.tail, h.err
}

func (h *fakeHost) PodUsage(_ context.Context, pod host.Pod, layers bool) (*host.PodUsage, error) {
	h.note(pod, layers)
	return h.usage, h.err
}

func (h *fakeHost) EnsureTerminationLog(_ context.Context, uid types.UID, container string, restartCount int32) (string, error) {
	h.note(uid, container, restartCount)
	return h.path, h.err
}

func (h *fakeHost) EnsurePodCgroup(_ context.Context, pod host.PodCgroup) (string, error) {
	h.note(pod)
	return h.path, h.err
}

func (h *fakeHost) SetCgroupTiers(_ context.Context, burstableShares int64) error {
	h.note(burstableShares)
	return h.err
}

func (h *fakeHost) EnsureIDRange(_ context.Context, uid types.UID) (host.IDRange, error) {
	h.note(uid)
	return host.IDRange{First: 1 << 31, Length: 9}, h.err
}

func (h *fakeHost) EnsureHostsFile(_ context.Context, uid types.UID, content []byte) (string, error) {
	h.note(uid, content)
	return h.path, h.err
}

func (h *fakeHost) RemovePod(_ context.Context, uid types.UID, removeLogs bool) error {
	h.note(uid, removeLogs)
	return h.err
}

func (h *fakeHost) ListPods(context.Context) ([]types.UID, error) { return h.uids, h.err }

func (h *fakeHost) ReadLog(ctx context.Context, req host.LogRequest, stdout, stderr io.Writer) error {
	h.note(req, stdout == nil, stderr == nil)
	if h.readLog == nil {
		return h.err
	}
	return h.readLog(ctx, req, stdout, stderr)
}

func (h *fakeHost) ListImageRecords(context.Context) ([]host.ImageRecord, error) {
	return h.records, h.err
}

func (h *fakeHost) PutImageRecord(_ context.Context, record host.ImageRecord) error {
	h.note(record)
	return h.err
}

func (h *fakeHost) ReadTail(_ context.Context, path string, limit int64) ([]byte, error) {
	h.note(path, limit)
	return h.tail, h.err
}

func (h *fakeHost) RestartCount(_ context.Context, pod host.Pod, container string) (int32, error) {
	h.note(pod, container)
	return h.restart, h.err
}

func (h *fakeHost) RemoveLogs(_ context.Context, path string) error {
	h.note(path)
	return h.err
}

func (h *fakeHost) RunHook(_ context.Context, req host.HookRequest) (*host.HookResult, error) {
	h.note(req)
	return h.hook, h.err
}

func (h *fakeHost) Probe(_ context.Context, req host.ProbeRequest) (*host.ProbeResult, error) {
	h.note(req)
	return h.probe, h.err
}

func (h *fakeHost) WatchPods(ctx context.Context, req host.WatchRequest, changed func(host.PodsChanged) error) error {
	h.note(req)
	if h.watch == nil {
		return h.err
	}
	return h.watch(ctx, changed)
}

func (h *fakeHost) DialStreaming(ctx context.Context, address string) (net.Conn, error) {
	h.note(address)
	if h.err != nil {
		return nil, h.err
	}
	return h.dial(ctx)
}

func (h *fakeHost) DialPod(ctx context.Context, sandboxID string, port uint16) (net.Conn, error) {
	h.note(sandboxID, port)
	if h.err != nil {
		return nil, h.err
	}
	return h.dial(ctx)
}

// link is a server and a connection to it, in memory.
type link struct {
	conn    *grpc.ClientConn
	client  host.Host
	metrics *prometheus.Registry
	cut     func() // breaks the connections that exist
	stop    func() // stops the server in order and waits for it
}

// connect serves a host and a runtime and connects to them.
func connect(t testing.TB, h host.Host, runtime grpc.ClientConnInterface) *link {
	t.Helper()
	l := &link{metrics: prometheus.NewRegistry()}
	listener := bufconn.Listen(1 << 20)
	server := NewServer(ServerOptions{Host: h, Runtime: runtime, Version: "v1.2.3", Registerer: l.metrics})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.Serve(ctx, listener); err != nil {
			t.Errorf("serving: %v", err)
		}
	})
	l.stop = func() {
		cancel()
		wg.Wait()
	}
	var mu sync.Mutex
	var conns []net.Conn
	l.cut = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range conns {
			_ = c.Close()
		}
		conns = nil
	}
	conn, err := NewConn(ConnOptions{Name: "host test", Dial: func(ctx context.Context) (net.Conn, error) {
		c, err := listener.DialContext(ctx)
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, c)
		}
		return c, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.conn = conn
	l.client = NewClient(conn, ClientOptions{})
	t.Cleanup(func() {
		_ = conn.Close()
		l.stop()
	})
	return l
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
