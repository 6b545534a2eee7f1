// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
)

// Runtime stops things in the container runtime. Each method has a deadline of its own, is idempotent, and returns
// errors of the classes of github.com/containerd/errdefs. Unavailable means that no answer came: the effect is unknown
// and the call is made again.
type Runtime interface {
	// StopContainer sends the stop signal and kills the container after grace. It returns when the container stopped. A
	// call with a shorter grace while another one waits takes precedence.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// StopSandbox tears down the sandbox and its network, and kills what still runs in it.
	StopSandbox(ctx context.Context, id string) error
	// ContainerStatus is NotFound for a container that does not exist.
	ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error)
}

// Options configure New. Runtime, Hooks, Clock and Recorder are required.
type Options struct {
	Runtime Runtime
	Hooks   host.HookRunner
	// Clock is the clock that deadlines are measured by.
	Clock    clock.Clock
	Recorder record.EventRecorder
	// Logger may be nil.
	Logger *slog.Logger
	// Registerer may be nil.
	Registerer prometheus.Registerer
}

// Terminator stops containers and pods.
type Terminator struct {
	runtime  Runtime
	hooks    host.HookRunner
	clock    clock.Clock
	recorder record.EventRecorder
	log      *slog.Logger
	metrics  *metrics
	memory   *memory
}

// New returns a Terminator.
func New(o Options) *Terminator {
	t := &Terminator{
		runtime: o.Runtime, hooks: o.Hooks, clock: o.Clock, recorder: o.Recorder, log: o.Logger,
		metrics: newMetrics(o.Registerer), memory: newMemory(),
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	return t
}

// Forget drops what is remembered of a pod whose containers have all stopped.
func (t *Terminator) Forget(uid types.UID) { t.memory.forgetPod(uid) }
