// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/local/fileset"
)

// PodsDir is the directory of the pods' directories, below the root directory.
const PodsDir = "pods"

const podsDir = PodsDir

// Modes of directories. They are set whatever the umask is.
const (
	privateDirMode = 0o750
	logDirMode     = 0o755
)

// Runtime is what the host asks of the container runtime. A cri.Client is one. Errors are of the classes of errdefs.
type Runtime interface {
	ContainerStatus(ctx context.Context, id string) (*runtimeapi.ContainerStatus, error)
	SandboxStatus(ctx context.Context, id string) (*runtimeapi.PodSandboxStatus, error)
	// ExecSync ends the process when ctx ends. A timeout of zero is none.
	ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (*runtimeapi.ExecSyncResponse, error)
	RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error)
	ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error)
	Lister
}

// Lister tells what there is in the container runtime.
type Lister interface {
	// SelectSandboxes and SelectContainers list what has the labels, in every state.
	SelectSandboxes(ctx context.Context, labels map[string]string) ([]*runtimeapi.PodSandbox, error)
	SelectContainers(ctx context.Context, labels map[string]string) ([]*runtimeapi.Container, error)
	// SelectStats tells what the containers with the labels use.
	SelectStats(ctx context.Context, labels map[string]string) ([]*runtimeapi.ContainerStats, error)
	// ContainerEvents calls event, which does not block, for each event until ctx ends or the stream breaks.
	ContainerEvents(ctx context.Context, event func(*runtimeapi.ContainerEventResponse)) error
}

// Options say where a Host works and with what.
type Options struct {
	// RootDir holds everything the host makes. It is created if it is missing, and locked.
	RootDir string
	// PodLogsDir holds the log directories of pods. It is created if it is missing.
	PodLogsDir string
	Runtime    Runtime
	// Version is reported in the facts.
	Version string
	// SystemRoot is where /proc, /sys and /etc are looked for. Default: "/".
	SystemRoot string
	// Interfaces returns the network interfaces. Default: those of the process's network namespace.
	Interfaces func() ([]Interface, error)
	// Cgroups makes control groups the way of a cgroup driver. Default: those of the machine.
	Cgroups func(driver string) CgroupManager
	Clock   clock.WithTicker
	// Logger is told of hooks and of facts that cannot be read. Default: none.
	Logger *slog.Logger
}

// Host is the machine the process runs on.
type Host struct {
	rootDir  string
	logsDir  string
	realRoot string // rootDir without symbolic links, as the kernel names it
	realLogs string
	root     *os.Root
	logs     *os.Root
	lock     *lock

	runtime    Runtime
	version    string
	systemRoot string
	interfaces func() ([]Interface, error)
	clock      clock.WithTicker
	logger     *slog.Logger

	pods     podLocks   // by UID: who changes the pod's directories
	images   sync.Mutex // who reads or changes image records
	idRanges sync.Mutex // who gives ids to a pod; taken after that pod's lock
	// localVolumes is held by who looks whether another pod uses a directory; taken after that pod's lock.
	localVolumes sync.Mutex
	podCgroups   podCgroups
	files        *fileset.Writer
	hooks        *hooks
	streaming    streamingAddress
	dialer       *net.Dialer
	// measureTime is how long the files of a pod are counted.
	measureTime time.Duration
}

var _ host.Host = (*Host)(nil)

// New takes possession of the root directory. It is FailedPrecondition while another process has it. Close gives it back.
func New(o Options) (*Host, error) {
	h, err := prepare(o)
	if err != nil {
		return nil, err
	}
	if err := h.open(); err != nil {
		return nil, errors.Join(err, h.release())
	}
	h.hooks = newHooks(h)
	return h, nil
}

// NewReader returns what tells the facts of the machine and does nothing else: it neither needs nor makes the directories, and
// another process may have them.
func NewReader(o Options) (host.FactsReader, error) { return prepare(o) }

// prepare makes a host that has nothing open.
func prepare(o Options) (*Host, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Host{
		rootDir:    filepath.Clean(o.RootDir),
		logsDir:    filepath.Clean(o.PodLogsDir),
		runtime:    o.Runtime,
		version:    o.Version,
		systemRoot: o.SystemRoot,
		interfaces: o.Interfaces,
		clock:      o.Clock,
		logger:     o.Logger,
		podCgroups: podCgroups{open: o.Cgroups},
		files:      fileset.New(o.Clock),
		dialer:     &net.Dialer{},

		measureTime: measureTime,
	}, nil
}

func (o *Options) complete() error {
	for _, dir := range []struct{ name, path string }{{"root directory", o.RootDir}, {"directory of pod logs", o.PodLogsDir}} {
		if !filepath.IsAbs(dir.path) {
			return fmt.Errorf("%s %q must be an absolute path: %w", dir.name, dir.path, errdefs.ErrInvalidArgument)
		}
	}
	if o.SystemRoot == "" {
		o.SystemRoot = "/"
	}
	if o.Interfaces == nil {
		o.Interfaces = systemInterfaces
	}
	if o.Cgroups == nil {
		o.Cgroups = openCgroups
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// open makes, opens and locks the directories.
func (h *Host) open() (err error) {
	if err := os.MkdirAll(h.rootDir, privateDirMode); err != nil {
		return fmt.Errorf("making the root directory: %w", err)
	}
	if err := os.MkdirAll(h.logsDir, logDirMode); err != nil {
		return fmt.Errorf("making the directory of pod logs: %w", err)
	}
	if h.realRoot, err = filepath.EvalSymlinks(h.rootDir); err != nil {
		return fmt.Errorf("resolving the root directory: %w", err)
	}
	if h.realLogs, err = filepath.EvalSymlinks(h.logsDir); err != nil {
		return fmt.Errorf("resolving the directory of pod logs: %w", err)
	}
	if h.root, err = os.OpenRoot(h.realRoot); err != nil {
		return fmt.Errorf("opening the root directory: %w", err)
	}
	if h.logs, err = os.OpenRoot(h.realLogs); err != nil {
		return fmt.Errorf("opening the directory of pod logs: %w", err)
	}
	if h.lock, err = takeLock(h.root, h.rootDir); err != nil {
		return err
	}
	return ensureDir(h.root, podsDir, privateDirMode)
}

func (h *Host) release() error {
	var problems []error
	if h.lock != nil {
		problems = append(problems, h.lock.release())
	}
	for _, root := range []*os.Root{h.root, h.logs} {
		if root != nil {
			problems = append(problems, root.Close())
		}
	}
	return errors.Join(problems...)
}

// Close waits for running hooks until ctx ends, then ends those that are left, and gives the root directory back. Pods are
// not touched. No other method may be called any more.
func (h *Host) Close(ctx context.Context) error {
	h.hooks.close(ctx)
	return h.release()
}
