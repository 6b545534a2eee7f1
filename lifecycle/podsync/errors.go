// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
)

// errNoFacts ends by itself as soon as the host has answered for the first time.
var errNoFacts = fmt.Errorf("the facts of the host are not known yet: %w", errdefs.ErrUnavailable)

// untold says that an error is nothing to tell the user of the pod: the sync was called off, or the host did not answer,
// which says nothing about the pod.
func untold(ctx context.Context, err error) bool {
	var reference *referenceError
	return ctx.Err() != nil || errdefs.IsUnavailable(err) && !errors.As(err, &reference)
}

// referenceError says that something cannot be had that the pod refers to. If it is Unavailable, it is the API that did not
// answer and not the host, which is told.
type referenceError struct{ error }

// Unwrap returns why.
func (e *referenceError) Unwrap() error { return e.error }

// startError is why a container could not be started, in terms of the user.
type startError struct {
	container string
	waiting
	cause error
}

// Error returns reason and message.
func (e *startError) Error() string {
	return fmt.Sprintf("starting container %q: %s: %s", e.container, e.reason, e.message)
}

// Unwrap returns what went wrong.
func (e *startError) Unwrap() error { return e.cause }

// retryError says that there is more to do at a time that is known.
type retryError struct {
	until time.Time
	why   string
}

// Error says why, and when.
func (e *retryError) Error() string { return e.why + "; on " + e.until.Format(time.RFC3339) }

// imageReason returns the waiting reason of an error about an image; ok is false for any other error.
func imageReason(err error) (reason string, ok bool) {
	var about interface{ WaitingReason() string }
	if !errors.As(err, &about) {
		return "", false
	}
	return about.WaitingReason(), true
}

// idError replaces a container's id by its name in the text of an error, so that the events of successive containers are
// the same event.
type idError struct {
	error
	text string
}

func withoutID(err error, id, name string) error {
	return &idError{error: err, text: strings.ReplaceAll(err.Error(), id, name)}
}

// Error returns the text without the id.
func (e *idError) Error() string { return e.text }

// Unwrap returns the error with the id.
func (e *idError) Unwrap() error { return e.error }
