// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"testing"

	"k8s.io/klog/v2"
)

func TestLibrariesAreNotLetLogWhatTheAPIAnswers(t *testing.T) {
	defer klog.CaptureState().Restore()
	for verbosity, want := range map[int]bool{0: false, 6: false, 7: true, 10: true} {
		o := logOptions{verbosity: verbosity, format: "text", level: "info"}
		if _, err := o.logger(io.Discard); err != nil {
			t.Fatal(err)
		}
		if got := klog.V(7).Enabled(); got != want {
			t.Errorf("-v=%d: what libraries say at 7 is logged: %v, want %v", verbosity, got, want)
		}
		if klog.V(8).Enabled() {
			t.Errorf("-v=%d: bodies of answers, which may be secrets, are logged", verbosity)
		}
	}
}
