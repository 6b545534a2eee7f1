// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package apierr

import (
	"errors"
	"net"
	"net/url"

	"github.com/containerd/errdefs"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// classes are asked in order; the first that applies wins.
var classes = []struct {
	applies func(error) bool
	class   error
}{
	{apierrors.IsNotFound, errdefs.ErrNotFound},
	{apierrors.IsAlreadyExists, errdefs.ErrAlreadyExists},
	{apierrors.IsConflict, errdefs.ErrConflict},
	{apierrors.IsForbidden, errdefs.ErrPermissionDenied},
	{apierrors.IsUnauthorized, errdefs.ErrUnauthenticated},
	{apierrors.IsTooManyRequests, errdefs.ErrResourceExhausted},
	{apierrors.IsInvalid, errdefs.ErrInvalidArgument},
	{apierrors.IsBadRequest, errdefs.ErrInvalidArgument},
	{apierrors.IsRequestEntityTooLargeError, errdefs.ErrInvalidArgument},
	{apierrors.IsMethodNotSupported, errdefs.ErrNotImplemented},
	{apierrors.IsGone, errdefs.ErrOutOfRange},
	{apierrors.IsResourceExpired, errdefs.ErrOutOfRange},
	{apierrors.IsServerTimeout, errdefs.ErrUnavailable},
	{apierrors.IsTimeout, errdefs.ErrUnavailable},
	{apierrors.IsServiceUnavailable, errdefs.ErrUnavailable},
	{apierrors.IsInternalError, errdefs.ErrUnavailable},
	{apierrors.IsUnexpectedServerError, errdefs.ErrUnavailable},
	{isTransport, errdefs.ErrUnavailable},
}

// Classify gives err its class and keeps its text and chain. Nil stays nil. An ended context and an error that has a
// class already are returned as they are; so is one that fits no class.
func Classify(err error) error {
	if err == nil || errdefs.IsCanceled(err) || errdefs.IsDeadlineExceeded(err) {
		return err
	}
	for _, c := range classes {
		if errors.Is(err, c.class) {
			return err
		}
	}
	for _, c := range classes {
		if c.applies(err) {
			return &classified{error: err, class: c.class}
		}
	}
	return err
}

// isTransport says that no answer of the API server came at all.
func isTransport(err error) bool {
	var urlErr *url.Error
	var netErr net.Error
	return errors.As(err, &urlErr) || errors.As(err, &netErr) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}

// classified is an error with a class; its text is that of the API.
type classified struct {
	error
	class error
}

// Unwrap returns the class and the API's own error.
func (c *classified) Unwrap() []error { return []error{c.class, c.error} }
