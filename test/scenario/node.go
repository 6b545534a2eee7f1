// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle"
)

// node is one process: an engine and its connections. Once it is dead, nothing it does has an effect.
type node struct {
	dead   atomic.Bool
	engine *lifecycle.Engine
	cancel context.CancelFunc
	done   chan struct{}
}

// Trap kills the node at a call.
type Trap struct {
	// Method is that of the CRI, or RunHook, PatchPodStatus, DeletePod.
	Method string
	// After lets the call have its effect first.
	After bool
}

// armed is a trap that is set, and how long after it struck a new node starts.
type armed struct {
	Trap
	pause time.Duration
}

// traps are the traps that are set. Each strikes once.
type traps struct {
	mu  sync.Mutex
	set []armed
	// restarts are the nodes to be started after a trap. One is added under the lock: once disarmed, none comes any more.
	restarts sync.WaitGroup
}

// take finds the trap of a call. Who gets one must call restarts.Done.
func (t *traps) take(trap Trap) (armed, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, found := range t.set {
		if found.Trap == trap {
			t.set = append(t.set[:i:i], t.set[i+1:]...)
			t.restarts.Add(1)
			return found, true
		}
	}
	return armed{}, false
}

// disarm takes all traps away and waits until every node that one killed has its successor.
func (t *traps) disarm() {
	t.mu.Lock()
	t.set = nil
	t.mu.Unlock()
	t.restarts.Wait()
}

var errDead = fmt.Errorf("%w: this process is dead", errdefs.ErrUnavailable)

// do runs the effect of a call of the node, if the node lives.
func (w *World) do(n *node, method string, effect func() error) error {
	w.spring(n, Trap{Method: method})
	if n.dead.Load() {
		return errDead
	}
	err := effect()
	w.spring(n, Trap{Method: method, After: true})
	if n.dead.Load() {
		return errDead
	}
	return err
}

// spring kills the node if there is a trap.
func (w *World) spring(n *node, t Trap) {
	trap, ok := w.traps.take(t)
	if !ok {
		return
	}
	when := "before"
	if t.After {
		when = "after"
	}
	w.blind(blindNode, "node", fmt.Sprintf("node dies %s %s", when, t.Method))
	n.dead.Store(true)
	go func() {
		defer w.traps.restarts.Done()
		w.KillNode()
		time.Sleep(trap.pause)
		w.StartNode()
	}()
}

// nodeConn is the node's connection to the runtime.
type nodeConn struct {
	grpc.ClientConnInterface
	w *World
	n *node
}

// Invoke calls the runtime.
func (c nodeConn) Invoke(ctx context.Context, method string, args, reply any, o ...grpc.CallOption) error {
	err := c.w.do(c.n, path.Base(method), func() error {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, o...)
	})
	if err == errDead { //nolint:errorlint // exactly this one
		return grpcstatus.Error(codes.Unavailable, err.Error())
	}
	return err
}

// nodeHost is the node's connection to the host.
type nodeHost struct {
	*Host
	w *World
	n *node
}

// RunHook asks the host.
func (h nodeHost) RunHook(ctx context.Context, req host.HookRequest) (result *host.HookResult, err error) {
	err = h.w.do(h.n, "RunHook", func() error {
		result, err = h.Host.RunHook(ctx, req)
		return err
	})
	return result, err
}

// RemovePod asks the host.
func (h nodeHost) RemovePod(ctx context.Context, uid types.UID, logs bool) error {
	return h.w.do(h.n, "RemovePod", func() error { return h.Host.RemovePod(ctx, uid, logs) })
}

// EnsurePod asks the host.
func (h nodeHost) EnsurePod(ctx context.Context, pod host.Pod, containers []string) error {
	return h.w.do(h.n, "EnsurePod", func() error { return h.Host.EnsurePod(ctx, pod, containers) })
}

// nodeSink is the node's connection to the API.
type nodeSink struct {
	*API
	w *World
	n *node
}

// PatchPodStatus asks the API.
func (s nodeSink) PatchPodStatus(
	ctx context.Context, name types.NamespacedName, uid types.UID, version string, patch []byte,
) (pod *v1.Pod, err error) {
	err = s.w.do(s.n, "PatchPodStatus", func() error {
		pod, err = s.API.PatchPodStatus(ctx, name, uid, version, patch)
		return err
	})
	return pod, err
}

// DeletePod asks the API.
func (s nodeSink) DeletePod(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	return s.w.do(s.n, "DeletePod", func() error { return s.API.DeletePod(ctx, name, uid) })
}

// recorder notes events in the trace.
type recorder struct {
	w *World
	n *node
}

// Event notes one.
func (r recorder) Event(object runtime.Object, kind, reason, message string) {
	if r.n.dead.Load() {
		return
	}
	name, uid := "", types.UID("")
	switch o := object.(type) {
	case *v1.Pod:
		name, uid = o.Name, o.UID
	case *v1.ObjectReference:
		name, uid = o.Name, o.UID
	}
	r.w.trace.add(time.Now(), Event{Text: fmt.Sprintf("event %s %s %s: %s", name, kind, reason, message), UID: uid, Detail: reason})
}

// Eventf notes one.
func (r recorder) Eventf(object runtime.Object, kind, reason, format string, args ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

// AnnotatedEventf notes one.
func (r recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, kind, reason, format string, args ...any) {
	r.Event(object, kind, reason, fmt.Sprintf(format, args...))
}

// StartNode starts a new process unless there is one.
func (w *World) StartNode() {
	w.life <- struct{}{}
	defer func() { <-w.life }()
	if w.node != nil {
		return
	}
	n := &node{done: make(chan struct{})}
	client := cri.NewClient(nodeConn{w.Runtime.Conn(), w, n}, cri.ClientOptions{Identity: identity})
	o := lifecycle.Options{
		Source: w.API.source(), Runtime: client, Host: nodeHost{w.Host, w, n}, Machine: Machine{}, Objects: Objects{},
		Sink: nodeSink{w.API, w, n}, Recorder: recorder{w, n}, Identity: identity, ClusterDomain: "cluster.local",
		MaxPods: 110, Clock: clock.RealClock{}, Logger: w.logger,
	}
	if w.mutate != nil {
		w.mutate(&o)
	}
	engine, err := lifecycle.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n.engine, n.cancel = engine, cancel
	w.node = n
	w.sees(blindNode, "node", "node starts")
	go func() {
		defer close(n.done)
		if err := engine.Run(ctx); err != nil {
			w.t.Errorf("the engine ended: %v", err)
		}
	}()
}

// KillNode ends the process as kill -9 does.
func (w *World) KillNode() {
	w.life <- struct{}{}
	defer func() { <-w.life }()
	if w.node == nil {
		return
	}
	if !w.node.dead.Swap(true) {
		w.blind(blindNode, "node", "node dies")
	}
	w.node.cancel()
	<-w.node.done
	w.node = nil
}

// discard is the logger of worlds that are not looked at.
var discard = slog.New(slog.DiscardHandler)
