// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// DefaultTimeout is the kubelet's default runtimeRequestTimeout, the deadline of every unary call that has no other.
const DefaultTimeout = 2 * time.Minute

// MaxMessageBytes is the largest message accepted from the runtime, as in the kubelet's own client (lists of a full
// node do not fit gRPC's 4 MiB).
const MaxMessageBytes = 16 << 20

// Client calls the runtime and image services of one container runtime.
type Client struct {
	runtime  runtimeapi.RuntimeServiceClient
	images   runtimeapi.ImageServiceClient
	identity Identity
	timeout  time.Duration
	observe  Observer
}

// Observer is told the kubelet's name of each finished operation (such as "run_podsandbox"), how long it took and how
// it ended.
type Observer interface {
	Observe(operation string, took time.Duration, err error)
}
