// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestEverySignalOfTheAPIIsOneOfTheRuntime(t *testing.T) {
	for _, s := range []v1.Signal{
		v1.SIGABRT, v1.SIGALRM, v1.SIGBUS, v1.SIGCHLD, v1.SIGCLD, v1.SIGCONT, v1.SIGFPE, v1.SIGHUP, v1.SIGILL, v1.SIGINT,
		v1.SIGIO, v1.SIGIOT, v1.SIGKILL, v1.SIGPIPE, v1.SIGPOLL, v1.SIGPROF, v1.SIGPWR, v1.SIGQUIT, v1.SIGSEGV, v1.SIGSTKFLT,
		v1.SIGSTOP, v1.SIGSYS, v1.SIGTERM, v1.SIGTRAP, v1.SIGTSTP, v1.SIGTTIN, v1.SIGTTOU, v1.SIGURG, v1.SIGUSR1, v1.SIGUSR2,
		v1.SIGVTALRM, v1.SIGWINCH, v1.SIGXCPU, v1.SIGXFSZ, v1.SIGRTMIN, v1.SIGRTMINPLUS1, v1.SIGRTMINPLUS15, v1.SIGRTMAXMINUS14,
		v1.SIGRTMAXMINUS1, v1.SIGRTMAX,
	} {
		n, err := stopSignal(&v1.Container{Lifecycle: &v1.Lifecycle{StopSignal: &s}})
		if err != nil {
			t.Error(err)
			continue
		}
		if got := signalName(n); got != string(s) {
			t.Errorf("%s became %v and then %s", s, n, got)
		}
	}
}

func TestSignalThatIsNoneIsRefused(t *testing.T) {
	for _, s := range []v1.Signal{"", "TERM", "RUNTIME_DEFAULT", "SIGNONE"} {
		if n, err := stopSignal(&v1.Container{Name: "c", Lifecycle: &v1.Lifecycle{StopSignal: &s}}); err == nil || !strings.Contains(err.Error(), "lifecycle.stopSignal") {
			t.Errorf("%q: %v, %v", s, n, err)
		}
	}
	if n, err := stopSignal(&v1.Container{}); n != runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT || err != nil {
		t.Errorf("without one: %v, %v", n, err)
	}
	if got := signalName(runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT); got != "" {
		t.Errorf("the default is called %q", got)
	}
}
