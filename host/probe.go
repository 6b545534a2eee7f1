// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"time"
)

// Header is one header line of an HTTP request. A name may occur more than once.
type Header struct {
	Name  string
	Value string
}

// HTTPRequest is a GET that the host makes, for a probe or a hook. Headers are sent as they are given: the caller adds
// the defaults that the kubelet adds. A header "Host" sets the request's host.
type HTTPRequest struct {
	// Scheme is "http" or "https"; certificates are not verified.
	Scheme string
	// Host is an IP address or a name that the host resolves.
	Host string
	Port int32
	// Path is the path with its query, as in the API.
	Path    string
	Headers []Header
}

// TCPRequest is a connection that the host opens and closes.
type TCPRequest struct {
	Host string
	Port int32
}

// GRPCRequest is a question to a server of the gRPC health service, without TLS.
type GRPCRequest struct {
	Host    string
	Port    int32
	Service string
	// UserAgent is what the client calls itself.
	UserAgent string
}

// ProbeRequest is one try of a probe that goes over the network: exactly one of HTTPGet, TCP and GRPC is set.
type ProbeRequest struct {
	HTTPGet *HTTPRequest
	TCP     *TCPRequest
	GRPC    *GRPCRequest
	// Timeout is how long the whole try may take, measured on the host.
	Timeout time.Duration
}

// ProbeOutcome is how a try of a probe ended.
type ProbeOutcome int

// The outcomes of a try. A warning counts as a success of which the user is told.
const (
	ProbeFailure ProbeOutcome = iota
	ProbeSuccess
	ProbeWarning
)

// ProbeResult is how a try of a probe ended and what the kubelet would say of it.
type ProbeResult struct {
	Outcome ProbeOutcome
	// Output is the beginning (10 KiB) of what the program answered, or why the try failed, in the kubelet's words.
	Output string
}

// Prober probes programs from where they run.
type Prober interface {
	// Probe makes one try. A program that does not answer, or answers wrongly, is a result and no error. An error says
	// nothing of the program: Unavailable and DeadlineExceeded that no answer of the host came, InvalidArgument that
	// the request makes no sense.
	Probe(ctx context.Context, req ProbeRequest) (*ProbeResult, error)
}
