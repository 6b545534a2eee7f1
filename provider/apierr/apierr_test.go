// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package apierr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/containerd/errdefs"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tombolo-dev/tombolo/provider/apierr"
)

func TestClassifyGivesEachAPIErrorItsClass(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for name, tc := range map[string]struct {
		err  error
		want func(error) bool
	}{
		"not found":            {apierrors.NewNotFound(pods, "a"), errdefs.IsNotFound},
		"wrapped not found":    {fmt.Errorf("getting: %w", apierrors.NewNotFound(pods, "a")), errdefs.IsNotFound},
		"already exists":       {apierrors.NewAlreadyExists(pods, "a"), errdefs.IsAlreadyExists},
		"conflict":             {apierrors.NewConflict(pods, "a", errors.New("uid")), errdefs.IsConflict},
		"forbidden":            {apierrors.NewForbidden(pods, "a", errors.New("no relationship")), errdefs.IsPermissionDenied},
		"unauthorized":         {apierrors.NewUnauthorized("expired"), errdefs.IsUnauthorized},
		"throttled":            {apierrors.NewTooManyRequests("later", 1), errdefs.IsResourceExhausted},
		"invalid":              {apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", nil), errdefs.IsInvalidArgument},
		"bad request":          {apierrors.NewBadRequest("no"), errdefs.IsInvalidArgument},
		"expired":              {apierrors.NewResourceExpired("old"), errdefs.IsOutOfRange},
		"server timeout":       {apierrors.NewServerTimeout(pods, "get", 1), errdefs.IsUnavailable},
		"etcd is away":         {apierrors.NewInternalError(errors.New("etcdserver: no leader")), errdefs.IsUnavailable},
		"no connection":        {&url.Error{Op: "Get", URL: "https://a", Err: syscall.ECONNREFUSED}, errdefs.IsUnavailable},
		"cut connection":       {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, errdefs.IsUnavailable},
		"unexpected EOF":       {io.ErrUnexpectedEOF, errdefs.IsUnavailable},
		"cancelled":            {&url.Error{Op: "Get", URL: "https://a", Err: context.Canceled}, errdefs.IsCanceled},
		"deadline":             {context.DeadlineExceeded, errdefs.IsDeadlineExceeded},
		"already has a class":  {fmt.Errorf("pod: %w", errdefs.ErrNotFound), errdefs.IsNotFound},
		"of no class, as told": {errors.New("odd"), func(err error) bool { return err.Error() == "odd" }},
	} {
		t.Run(name, func(t *testing.T) {
			got := apierr.Classify(tc.err)
			if !tc.want(got) {
				t.Errorf("Classify(%v) has another class", tc.err)
			}
			if got.Error() != tc.err.Error() {
				t.Errorf("text = %q, want the API's own %q", got, tc.err)
			}
			if !errors.Is(got, tc.err) {
				t.Error("the API's own error left the chain")
			}
		})
	}
}

func TestClassifyKeepsNilNil(t *testing.T) {
	if err := apierr.Classify(nil); err != nil {
		t.Errorf("Classify(nil) = %v", err)
	}
}
