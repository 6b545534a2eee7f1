// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podworker

import (
	"errors"
	"time"

	"github.com/containerd/errdefs"
)

const (
	// resyncInterval is the kubelet's syncFrequency.
	resyncInterval = time.Minute
	// errorDelay is the kubelet's back-off of a failed sync.
	errorDelay = 10 * time.Second
	// terminationErrorDelay is shorter than the kubelet's: a pod that is going away holds up its successor.
	terminationErrorDelay = 2 * time.Second
	// transientDelay applies while the network or the link is not ready. The next step waits for a fresh observation
	// anyway, so this does not spin.
	transientDelay = time.Second
)

// RetryError says when trying again is useful. The earliest crash-loop back-off of a pod is one.
type RetryError struct {
	Err error
	At  time.Time
}

// Error returns the text of the wrapped error.
func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *RetryError) Unwrap() error { return e.Err }

// ErrNetworkNotReady is the class of errors that end by themselves when the runtime has a pod network.
var ErrNetworkNotReady = errors.New("network is not ready")

// baseDelay is the delay before jitter.
func baseDelay(phase Phase, err error, now time.Time) time.Duration {
	var retry *RetryError
	switch {
	case err == nil:
		return resyncInterval
	case errors.As(err, &retry):
		return min(max(retry.At.Sub(now), 0), resyncInterval)
	case errdefs.IsUnavailable(err), errors.Is(err, ErrNetworkNotReady):
		return transientDelay
	case phase == PhaseSync:
		return errorDelay
	default:
		return terminationErrorDelay
	}
}
