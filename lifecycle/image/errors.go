// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"
	"strings"
)

// The reasons a container waits for because of its image. They appear in state.waiting.reason.
const (
	ReasonInvalidImageName          = "InvalidImageName"
	ReasonInspectError              = "ImageInspectError"
	ReasonErrImageNeverPull         = "ErrImageNeverPull"
	ReasonErrImagePull              = "ErrImagePull"
	ReasonImagePullBackOff          = "ImagePullBackOff"
	ReasonRegistryUnavailable       = "RegistryUnavailable"
	ReasonSignatureValidationFailed = "SignatureValidationFailed"
)

// errNoSecrets is why a manager without Secrets reads none.
var errNoSecrets = errors.New("this node does not read secrets")

// Error says why a container has no image. Its text is the message for state.waiting.message; the event that the
// kubelet adds for every failed start says "Error: " and the reason only.
type Error struct {
	reason  string
	message string
	cause   error
}

// Error returns the message for the user.
func (e *Error) Error() string { return e.message }

// WaitingReason returns the reason to show in state.waiting.reason.
func (e *Error) WaitingReason() string { return e.reason }

// Unwrap returns what the runtime said, nil if it was not asked.
func (e *Error) Unwrap() error { return e.cause }

// pullError gives a failed pull its reason. Two kinds of failure have names of their own in the CRI; they are agreed to
// be the first word of the message.
func pullError(image string, err error) *Error {
	for reason, text := range map[string]string{
		ReasonRegistryUnavailable:       "the registry is unavailable",
		ReasonSignatureValidationFailed: "the signature validation failed",
	} {
		if detail, ok := strings.CutPrefix(err.Error(), reason); ok {
			return &Error{reason: reason, message: fmt.Sprintf("image pull failed for %s because %s%s", image, text, detail), cause: err}
		}
	}
	return &Error{reason: ReasonErrImagePull, message: err.Error(), cause: err}
}
