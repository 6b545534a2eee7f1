// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
)

// Reasons of events, the kubelet's.
const (
	ReasonMount = "FailedMount"
	ReasonMap   = "FailedMapVolume"
)

// SetUpError says that one volume could not be made ready. Its text is the kubelet's for an event.
type SetUpError struct {
	Volume string
	Err    error
}

// Error returns the kubelet's text.
func (e *SetUpError) Error() string {
	var operation *operationError
	var unprocessed *unprocessedError
	switch {
	case errors.As(e.Err, &unprocessed):
		return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], failed to process volumes=[%s]: %v",
			e.Volume, e.Volume, e.Err)
	case errors.As(e.Err, &operation):
		return e.Err.Error()
	default:
		return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", e.Volume, textOf(e.Err))
	}
}

// Reason returns the kubelet's reason for the event.
func (e *SetUpError) Reason() string {
	var operation *operationError
	if errors.As(e.Err, &operation) && operation.block {
		return ReasonMap
	}
	return ReasonMount
}

// Unwrap returns what the host said.
func (e *SetUpError) Unwrap() error { return e.Err }

// textOf is what an error of the host says, without the words for its class, which are not for users.
func textOf(err error) string {
	text := err.Error()
	for _, class := range []error{errdefs.ErrFailedPrecondition, errdefs.ErrInvalidArgument, errdefs.ErrPermissionDenied} {
		text = strings.TrimSuffix(text, ": "+class.Error())
	}
	return text
}

// unprocessedError says that it is not known what a volume is made of.
type unprocessedError struct{ text string }

// Error returns the kubelet's text.
func (e *unprocessedError) Error() string { return e.text }

// operationError says that something could not be done with a PersistentVolume.
type operationError struct {
	operation, volume string
	block             bool
	err               error
}

// Error returns the kubelet's text.
func (e *operationError) Error() string {
	return fmt.Sprintf("%s failed for volume %q : %s", e.operation, e.volume, textOf(e.err))
}

// Unwrap returns what went wrong.
func (e *operationError) Unwrap() error { return e.err }

// Timeout is how long the kubelet waits for the volumes of a pod before it tells of them all together.
const Timeout = 2*time.Minute + 3*time.Second

// UnmountedError is all that is wrong with the volumes of a pod. Unwrap yields a *SetUpError for each of them.
type UnmountedError struct {
	Causes []*SetUpError
	// TimedOut says that the pod has waited for Timeout or longer.
	TimedOut bool
}

// Error returns what is wrong with each.
func (e *UnmountedError) Error() string {
	texts := make([]string, len(e.Causes))
	for i, c := range e.Causes {
		texts[i] = c.Error()
	}
	return strings.Join(texts, "; ")
}

// Summary returns the kubelet's text for an event FailedMount about all volumes of a pod that waited too long.
func (e *UnmountedError) Summary() string {
	names := make([]string, len(e.Causes))
	for i, c := range e.Causes {
		names[i] = c.Volume
	}
	return fmt.Sprintf("Unable to attach or mount volumes: unmounted volumes=[%s], unattached volumes=[], "+
		"failed to process volumes=[]: context deadline exceeded", strings.Join(names, " "))
}

// Unwrap returns the causes.
func (e *UnmountedError) Unwrap() []error {
	out := make([]error, len(e.Causes))
	for i, c := range e.Causes {
		out[i] = c
	}
	return out
}
