// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"strings"
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

// UnmountedError is all that is wrong with the volumes of a pod. Unwrap yields a *SetUpError for each of them.
type UnmountedError struct {
	Causes []*SetUpError
}

// Error returns the text that follows "Unable to attach or mount volumes: " in the kubelet's event FailedMount.
func (e *UnmountedError) Error() string {
	names := make([]string, len(e.Causes))
	texts := make([]string, len(e.Causes))
	for i, c := range e.Causes {
		names[i], texts[i] = c.Volume, c.Error()
	}
	return fmt.Sprintf("unmounted volumes=[%s], unattached volumes=[], failed to process volumes=[]: %s",
		strings.Join(names, " "), strings.Join(texts, "; "))
}

// Unwrap returns the causes.
func (e *UnmountedError) Unwrap() []error {
	out := make([]error, len(e.Causes))
	for i, c := range e.Causes {
		out[i] = c
	}
	return out
}
