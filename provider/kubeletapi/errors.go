// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/containerd/errdefs"
)

// statusError is an error that knows the HTTP status it is answered with. Its text is the whole body.
type statusError struct {
	code int
	text string
}

// Error returns the text.
func (e *statusError) Error() string { return e.text }

func statusErrorf(code int, format string, args ...any) error {
	return &statusError{code: code, text: fmt.Sprintf(format, args...)}
}

// streamStatus maps an error to the status of a refused exec, attach or port-forward. Clients show the body whatever
// the status is.
func streamStatus(err error) int {
	var status *statusError
	switch {
	case errors.As(err, &status):
		return status.code
	case errdefs.IsNotFound(err):
		return http.StatusNotFound
	case errdefs.IsInvalidArgument(err):
		return http.StatusBadRequest
	case errdefs.IsResourceExhausted(err):
		return http.StatusTooManyRequests
	case unreachable(err):
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

// logStatus maps an error to the status of a refused log request. It is 500 when the host cannot be reached: the API
// server passes the text of a 400 and of a 500 on to the user, and replaces that of a 503 with a phrase that names no
// reason.
func logStatus(err error) int {
	var status *statusError
	switch {
	case errors.As(err, &status):
		return status.code
	case unreachable(err):
		return http.StatusInternalServerError
	default:
		return http.StatusBadRequest
	}
}

// unreachable says that the host or its runtime did not answer.
func unreachable(err error) bool {
	return errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err)
}

// inTime runs a call to the host that must not keep a person waiting. It gives an error that says so when the link is down, at once, and
// when there was no answer within the call timeout.
func inTime[T any](ctx context.Context, o *Options, what string, call func(context.Context) (T, error)) (T, error) {
	if err := o.LinkDown(); err != nil {
		var none T
		return none, fmt.Errorf("%s: %w", what, err)
	}
	limit := o.CallTimeout
	callCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := call(callCtx)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return out, fmt.Errorf("%s: the host did not answer within %s: %w", what, limit, errdefs.ErrUnavailable)
	default:
		return out, fmt.Errorf("%s: %w", what, err)
	}
}
