// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"crypto/x509"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/link"
)

// Observed is everything that the judgement rests on.
type Observed struct {
	Target link.Target
	// Node is the name of the node, "" if it was not given.
	Node string
	// Version is that of this program.
	Version string
	// Now is this machine's clock when everything was gathered.
	Now time.Time

	// LinkErr is why the host is not reached, nil if it is.
	LinkErr error
	// Machine are the facts of the host, nil if there are none. MachineAt is this machine's clock in the middle between question
	// and answer, RoundTrip the time between them.
	Machine    *host.Facts
	MachineErr error
	MachineAt  time.Time
	RoundTrip  time.Duration

	Runtime    *runtimeapi.VersionResponse
	RuntimeErr error
	Status     *runtimeapi.StatusResponse
	StatusErr  error
	ImagesErr  error

	Certificates []Certificate
	// Identities are those towards the API, none if there was nothing to reach it with.
	Identities []Identity
}

// Certificate is one that the link or the API depends on.
type Certificate struct {
	// What says which one it is, with the flag and file that it comes from.
	What string
	// Leaf is nil if it could not be read, for the reason Err.
	Leaf *x509.Certificate
	Err  error
	// Name is what the certificate must be for, "" if that does not matter.
	Name string
	// Roots are what it must come from, with Chain in between; nil if that does not matter.
	Roots *x509.CertPool
	Chain []*x509.Certificate
	Usage x509.ExtKeyUsage
	// Remedy is how to make another one.
	Remedy string
}

// Identity is who somebody is towards the API, and what they may do there.
type Identity struct {
	// Source says where it comes from.
	Source string
	// Server is the address of the API server, ServerVersion what it says it is.
	Server        string
	ServerVersion string
	User          string
	// Err is why the API was not reached with it.
	Err error
	// Node says that it is to be the node itself, rather than one that asks for the node's identity.
	Node    bool
	Answers []Answer
}

// Answer is whether somebody has a right.
type Answer struct {
	Right   Right
	Allowed bool
	// Err is that the API did not answer.
	Err error
}
