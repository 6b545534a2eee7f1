// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strings"
	"time"
)

// SetUpError says that one volume could not be made ready. Its text is the kubelet's for the event FailedMount.
type SetUpError struct {
	Volume string
	Err    error
}

// Error returns the kubelet's text.
func (e *SetUpError) Error() string {
	return fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", e.Volume, e.Err)
}

// Unwrap returns what the host said.
func (e *SetUpError) Unwrap() error { return e.Err }

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
