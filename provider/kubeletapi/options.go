// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

const (
	// DefaultStreamIdleTimeout is the kubelet's default streamingConnectionIdleTimeout.
	DefaultStreamIdleTimeout = 4 * time.Hour
	// DefaultCallTimeout is how long a request waits for the host before it is answered with an error. It is short
	// because a person waits: a host that is cut off shall be named as the reason, not be waited for.
	DefaultCallTimeout = 10 * time.Second
)

// PodView is what the server may see of the pods of this node. The answers are shared and never changed. No method may
// block on the host or on the API server.
type PodView interface {
	// Pods returns the pods bound to the node as last received from the API, with the status the API has.
	Pods() []*v1.Pod
	// Pod returns one of them. Of several with the same name it is the one the API has now.
	Pod(namespace, name string) (*v1.Pod, bool)
	// RuntimeStatus returns the last observation of the pod in the runtime, or why there is none. A pod the runtime does
	// not have is not an error.
	RuntimeStatus(uid types.UID) (*cri.PodStatus, error)
	// Status returns the status that was computed last for the pod, which may be newer than what the API has.
	Status(uid types.UID) (v1.PodStatus, bool)
}

// Runtime asks the container runtime where a stream will be served. Each answer is a URL of the runtime's streaming
// server, good for one use. Errors are classes of errdefs. The calls are not retried.
type Runtime interface {
	Exec(ctx context.Context, req *runtimeapi.ExecRequest) (url string, err error)
	Attach(ctx context.Context, req *runtimeapi.AttachRequest) (url string, err error)
	PortForward(ctx context.Context, req *runtimeapi.PortForwardRequest) (url string, err error)
}

// LogReader is the part of host.LogReader that serves logs.
type LogReader interface {
	ReadLog(ctx context.Context, req host.LogRequest, stdout, stderr io.Writer) error
	ReadTail(ctx context.Context, path string, limit int64) ([]byte, error)
}

// StreamDialer is the part of host.Dialer that reaches the runtime's streaming server.
type StreamDialer interface {
	DialStreaming(ctx context.Context, address string) (net.Conn, error)
}

var (
	_ Runtime      = (*cri.Client)(nil)
	_ LogReader    = host.Host(nil)
	_ StreamDialer = host.Host(nil)
)

// Reviewer gives access to TokenReviews and SubjectAccessReviews. A kubernetes.Interface is one.
type Reviewer interface {
	AuthenticationV1() authenticationv1.AuthenticationV1Interface
	AuthorizationV1() authorizationv1.AuthorizationV1Interface
}

// ClientAuthority has the authorities that client certificates are verified with. It keeps them up to date while Run runs,
// until ctx ends; the number of workers means nothing.
type ClientAuthority interface {
	dynamiccertificates.CAContentProvider
	Run(ctx context.Context, workers int)
}

// TLSOptions say how the server shows itself and whom it believes.
type TLSOptions struct {
	// CertFile and KeyFile hold the serving certificate and its key in PEM. They are read again when they change. When
	// both are empty a self-signed certificate is made in memory, valid for a year.
	CertFile string
	KeyFile  string
	// ClientCAFile holds the certificate authorities (PEM) that client certificates are verified with; it is read again
	// when it changes. When empty, only tokens are accepted.
	ClientCAFile string
	// Issued is a serving certificate that the cluster issues, in place of files. Until it has content, which it tells its
	// listeners, a self-signed one is served. It may be nil.
	Issued dynamiccertificates.CertKeyContentProvider
	// ClientCA has the authorities of client certificates, in place of a file. The server runs it. It may be nil.
	ClientCA ClientAuthority
	// Addresses are the host names and IP addresses a self-signed certificate is valid for besides the node's name.
	Addresses []string
}

// Options are what a Server needs. Those without a default must be set.
type Options struct {
	// NodeName is the name of the node that requests are authorised for.
	NodeName string
	// Address is the host:port to listen on. Listener, if set, is used in its place and is closed by Run.
	Address  string
	Listener net.Listener
	TLS      TLSOptions
	// Reviews asks the cluster who a caller is and what it may do.
	Reviews Reviewer

	Pods    PodView
	Runtime Runtime
	Logs    LogReader
	Streams StreamDialer

	// PodLogsDir returns the directory of pod logs on the host, "" while it is not known. It serves to find the log of a
	// container that the runtime has forgotten. It may be nil.
	PodLogsDir func() string
	// LinkDown returns since when and why the host cannot be reached, nil while it can or that is not known. Requests that need the
	// host are answered with it at once. By default they wait for the host.
	LinkDown func() error
	// Observed returns the pods that the runtime has, also those the API no longer knows. By default they are the pods
	// of Pods.
	Observed func() []types.UID
	// HostTime returns the present time by the host's clock, which is the one that log lines are stamped with. By default
	// the clocks are taken to agree.
	HostTime func() time.Time
	// SyncLoop is the check behind /healthz/syncloop: nil says that the engine makes progress. It may be nil.
	SyncLoop func(*http.Request) error
	// Gatherer is served at /metrics. By default that path does not exist.
	Gatherer prometheus.Gatherer

	// StreamIdleTimeout ends a stream over which no byte went for so long. Default: DefaultStreamIdleTimeout.
	StreamIdleTimeout time.Duration
	// CallTimeout is how long the host may take to begin an answer. Default: DefaultCallTimeout.
	CallTimeout time.Duration

	// Clock is the real clock by default.
	Clock clock.Clock
	// Logger discards by default.
	Logger *slog.Logger
	// Registerer receives the server's own metrics. Nil: they are not registered.
	Registerer prometheus.Registerer
}

// complete checks the options and fills in defaults.
func (o *Options) complete() error {
	switch {
	case o.NodeName == "":
		return errors.New("kubelet API: NodeName is empty; name the node that requests are authorised for")
	case o.Reviews == nil:
		return errors.New("kubelet API: Reviews is nil; a client of the API server is needed to authenticate callers")
	case o.Pods == nil, o.Runtime == nil, o.Logs == nil, o.Streams == nil:
		return errors.New("kubelet API: Pods, Runtime, Logs and Streams must all be set")
	case (o.TLS.CertFile == "") != (o.TLS.KeyFile == ""):
		return fmt.Errorf("kubelet API: tls-cert-file %q and tls-private-key-file %q belong together; give both or neither",
			o.TLS.CertFile, o.TLS.KeyFile)
	case o.StreamIdleTimeout < 0, o.CallTimeout < 0:
		return errors.New("kubelet API: StreamIdleTimeout and CallTimeout must not be negative")
	}
	if o.StreamIdleTimeout == 0 {
		o.StreamIdleTimeout = DefaultStreamIdleTimeout
	}
	if o.CallTimeout == 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.HostTime == nil {
		o.HostTime = o.Clock.Now
	}
	if o.LinkDown == nil {
		o.LinkDown = func() error { return nil }
	}
	if o.PodLogsDir == nil {
		o.PodLogsDir = func() string { return "" }
	}
	if o.Observed == nil {
		o.Observed = observedOf(o.Pods)
	}
	return nil
}

// observedOf takes the pods the API knows for the pods the runtime has.
func observedOf(view PodView) func() []types.UID {
	return func() []types.UID {
		pods := view.Pods()
		uids := make([]types.UID, 0, len(pods))
		for _, pod := range pods {
			uids = append(uids, pod.UID)
		}
		return uids
	}
}
