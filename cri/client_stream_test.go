// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri_test

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tombolo-dev/tombolo/cri"
)

func TestCommandThatTheRuntimeStoppedIsToldFromACallWithoutAnswer(t *testing.T) {
	for _, test := range []struct {
		name    string
		err     error
		stopped bool
	}{
		{
			"the runtime stopped it",
			status.Error(codes.DeadlineExceeded, "failed to exec in container: timeout 2s exceeded: context deadline exceeded"), true,
		},
		{"the call was not answered", status.Error(codes.DeadlineExceeded, "context deadline exceeded"), false},
		{"a shim did not answer the runtime", status.Error(codes.DeadlineExceeded, "failed to create exec \"x\": context deadline exceeded"), false},
		{"the connection broke", status.Error(codes.Unavailable, "timeout 2s exceeded"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := cri.NewClient(&scripted{answer: fails(test.err)}, cri.ClientOptions{})
			_, err := c.ExecSync(t.Context(), "c", []string{"true"}, 1500*time.Millisecond)
			if got := errors.Is(err, cri.ErrCommandTimedOut); got != test.stopped {
				t.Errorf("%v: stopped %t, want %t", err, got, test.stopped)
			}
			if cri.OutcomeUnknown(err) == test.stopped {
				t.Errorf("%v: outcome unknown %t", err, !test.stopped)
			}
		})
	}
}
