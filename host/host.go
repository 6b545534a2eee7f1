// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"io"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Facts are what a node object tells of its machine. Sizes are bytes.
type Facts struct {
	MachineID     string
	SystemUUID    string
	BootID        string
	Hostname      string
	OS            string // GOOS of the host, "linux"
	Architecture  string // GOARCH of the host
	KernelVersion string
	OSImage       string

	CPUs            int
	MemoryBytes     uint64
	MemoryAvailable uint64
	SwapBytes       uint64
	PIDMax          uint64
	PIDsRunning     uint64
	Filesystems     []Filesystem

	// Clock is the host's wall clock when the answer was made.
	Clock time.Time
	// HugePages are the sizes of huge pages that the kernel knows, with how many of each it has, ordered by size.
	HugePages []HugePages
	// SwapControl says that the use of swap can be limited for each control group.
	SwapControl bool

	// AppArmor says that the kernel enforces AppArmor profiles.
	AppArmor bool
	// CgroupVersion is 1 or 2 (a hybrid hierarchy counts as 1). CgroupDriver is "cgroupfs" or "systemd".
	CgroupVersion int
	CgroupDriver  string
	// Controllers are the control group controllers that there are, ordered by name.
	Controllers []string
	// Addresses are the global unicast addresses of the host, that of the default route first.
	Addresses []string
	// ResolvConf and Hosts are the contents of the host's /etc/resolv.conf and /etc/hosts.
	ResolvConf string
	Hosts      string

	// RootDir is the directory that holds everything the host part creates. PodLogsDir is where pod log directories are.
	RootDir    string
	PodLogsDir string
	// Version is the version of the host process.
	Version string
}

// Filesystem is the state of one file system of the host.
type Filesystem struct {
	// Purpose is "nodefs" (holds RootDir) or "imagefs" (holds the runtime's images).
	Purpose         string
	Path            string
	CapacityBytes   uint64
	AvailableBytes  uint64
	Inodes          uint64
	InodesAvailable uint64
}

// HugePages are the huge pages of one size.
type HugePages struct {
	PageBytes uint64
	Count     uint64
}

// FactsReader tells the facts of the machine.
type FactsReader interface {
	// Facts reads them anew. A fact that cannot be read is left zero; an error means that no answer came at all.
	Facts(ctx context.Context) (*Facts, error)
}

// Pod identifies a pod for directory and log names. All fields are checked on the host: none may contain a path
// separator or be a dot name.
type Pod struct {
	UID       types.UID
	Namespace string
	Name      string
}

// PodDirs owns the directory of each pod below RootDir, and its log directory below PodLogsDir.
type PodDirs interface {
	// EnsurePod makes the pod's directory (0750, with volumes, plugins and containers below it) and its log directory
	// (0755) with one sub-directory per named container.
	EnsurePod(ctx context.Context, pod Pod, containers []string) error
	// EnsureVolume makes the named volume ready and returns its path on the host.
	EnsureVolume(ctx context.Context, uid types.UID, volume Volume) (ReadyVolume, error)
	// EnsureTerminationLog makes an empty file (0666) for the container's termination message and returns its path.
	// restartCount tells the files of successive containers apart.
	EnsureTerminationLog(ctx context.Context, uid types.UID, container string, restartCount int32) (path string, err error)
	// RemovePod removes the pod's control group, with what is left in it, its directory, and the mounts that EnsureVolume,
	// WriteFiles and EnsureSubPath made below that. Missing is success. It refuses (FailedPrecondition) while something else is
	// mounted below it. removeLogs says whether the pod's log directories go too; what is empty of them always does.
	RemovePod(ctx context.Context, uid types.UID, removeLogs bool) error
	// ListPods returns the UIDs that have a directory.
	ListPods(ctx context.Context) ([]types.UID, error)
}

// LogRequest selects a part of a container's log. It has the meaning of the API's PodLogOptions.
type LogRequest struct {
	// Path is the log file, absolute, as in the container's CRI status. It must be below PodLogsDir.
	Path string
	// ContainerID is asked of the runtime to know when following ends.
	ContainerID string
	Follow      bool
	Timestamps  bool
	// TailLines and LimitBytes are unlimited when negative; zero means none.
	TailLines  int64
	LimitBytes int64
	// Since drops older lines; zero keeps all.
	Since time.Time
}

// LogReader reads container logs and other small files that belong to a container.
type LogReader interface {
	// ReadLog writes the selected part to stdout and stderr and returns when it is complete: at the end of the file, or
	// when following, after the container ended and its log was drained. A nil writer leaves its stream out, which then does
	// not count against LimitBytes. When ctx ends, the error is ctx's.
	ReadLog(ctx context.Context, req LogRequest, stdout, stderr io.Writer) error
	// ReadTail returns at most the last limit bytes of a termination message file below RootDir or of a log file below
	// PodLogsDir. NotFound if it does not exist.
	ReadTail(ctx context.Context, path string, limit int64) ([]byte, error)
	// RestartCount returns one more than the highest restart number among the log files of the container, or 0. It
	// keeps logs from being overwritten after the runtime lost its records.
	RestartCount(ctx context.Context, pod Pod, container string) (int32, error)
	// RemoveLogs removes the log files of one restart of a container. Missing is success.
	RemoveLogs(ctx context.Context, path string) error
}

// Kinds of hooks.
const (
	HookPreStop   = "preStop"
	HookPostStart = "postStart"
	// HookPreStopOnExit is the preStop hook of a container that ended by itself. The container is never looked at, so it
	// cannot be a command.
	HookPreStopOnExit = "preStopOnExit"
)

// HookRequest names one run of a hook: exactly one of Command, HTTPGet and Sleep is set, or none with JoinOnly.
type HookRequest struct {
	PodUID      types.UID
	ContainerID string
	// Kind tells the hooks of one container apart: HookPreStop, HookPostStart or HookPreStopOnExit.
	Kind    string
	Command []string
	// HTTPGet is a request that is made from the host. Every answer is a success, whatever its status code.
	HTTPGet *HTTPRequest
	// Sleep is a pause that the hook consists of; nil for none. It may be zero.
	Sleep *time.Duration
	// Timeout is how long the hook may run, from now; it is cut short then. Zero is no limit.
	Timeout time.Duration
	// JoinOnly begins nothing: the answer is that of the run that is going on or on record, and NotFound if there is none.
	JoinOnly bool
}

// HookResult is how a hook ended.
type HookResult struct {
	// ExitCode is that of the process; -1 if there is none: it was killed, interrupted or could not be started.
	ExitCode int32
	// Output is the beginning of its combined output, for events and logs, or why it could not be started.
	Output string
	// TimedOut says that it was killed when its time was up.
	TimedOut bool
	// Interrupted says that an earlier run of the same hook was begun and its end is not known (the host process died).
	// It is not begun again.
	Interrupted bool
	// ContainerEnded says that the container ended before its hook did, which ended the hook.
	ContainerEnded bool
	// HTTPFallback says that an HTTPS request met a server of plain HTTP and succeeded when it was made again without
	// encryption and credentials.
	HTTPFallback bool
}

// HookRunner runs hooks exactly once per (pod, container id, kind), also when the caller or the link dies in the
// middle: the run belongs to the host, and the same request again joins it or returns its recorded result.
type HookRunner interface {
	// RunHook returns when the hook ended, at the latest shortly after its container did. When it is called again while the
	// hook runs, the shorter of the two deadlines holds. A cancelled ctx leaves the hook running. FailedPrecondition (the
	// container does not run) and NotFound (it is gone) mean that the hook was not begun and never will be. After Unavailable
	// it may run: the same call again is right.
	RunHook(ctx context.Context, req HookRequest) (*HookResult, error)
}

// Dialer opens byte streams that end on the host. The connections support CloseWrite (half-close).
type Dialer interface {
	// DialStreaming connects to the runtime's streaming server at the host:port of a URL that the runtime returned
	// from Exec, Attach or PortForward. Any other address is PermissionDenied.
	DialStreaming(ctx context.Context, address string) (net.Conn, error)
	// DialPod connects to a TCP port of a pod by the id of its sandbox; the address is taken from the runtime.
	DialPod(ctx context.Context, sandboxID string, port uint16) (net.Conn, error)
}

// Host is everything together, as an implementation offers it. Consumers ask for the part they need.
type Host interface {
	FactsReader
	PodDirs
	PodCgroups
	PodFiles
	UserNamespaces
	ImageRecords
	Volumes
	UsageReader
	LogReader
	HookRunner
	Prober
	PodWatcher
	Dialer
}
