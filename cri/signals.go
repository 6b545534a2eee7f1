// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The CRI's names of signals have no signs.
const signalPrefix = "SIGNAL_"

var (
	signalToCRI   = strings.NewReplacer("+", "PLUS", "-", "MINUS")
	signalFromCRI = strings.NewReplacer("PLUS", "+", "MINUS", "-")
)

// stopSignal is what the container is to be stopped with, the runtime's default if it names none.
func stopSignal(c *v1.Container) (runtimeapi.Signal, error) {
	if c.Lifecycle == nil || c.Lifecycle.StopSignal == nil {
		return runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT, nil
	}
	name := string(*c.Lifecycle.StopSignal)
	n, ok := runtimeapi.Signal_value[signalPrefix+signalToCRI.Replace(name)]
	if !ok || !strings.HasPrefix(name, "SIG") {
		return 0, fmt.Errorf("lifecycle.stopSignal of container %q: there is no signal %q", c.Name, name)
	}
	return runtimeapi.Signal(n), nil
}

// signalName returns the API's name of a signal, "" if the runtime does not tell one.
func signalName(s runtimeapi.Signal) string {
	if s == runtimeapi.Signal_SIGNAL_RUNTIME_DEFAULT {
		return ""
	}
	return signalFromCRI.Replace(strings.TrimPrefix(s.String(), signalPrefix))
}
