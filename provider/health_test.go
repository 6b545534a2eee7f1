// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

func TestHealthSaysWhatTheNodeWaitsFor(t *testing.T) {
	var h Health
	if err := h.Live(); err != nil {
		t.Errorf("before it begins, it is to be started again: %v", err)
	}
	if err := h.Ready(); err == nil {
		t.Error("ready before it begins")
	}
	missing := errors.New("waits for approval")
	h.waiting(func() error { return missing })
	if err := h.Ready(); !errors.Is(err, missing) {
		t.Errorf("without a certificate: %v", err)
	}
	missing = nil
	if err := h.Ready(); err == nil {
		t.Error("ready with nothing but a certificate")
	}
}

func TestReadyIsWhatTheAPISays(t *testing.T) {
	node := func(status v1.ConditionStatus) *v1.Node {
		return &v1.Node{Status: v1.NodeStatus{Conditions: []v1.NodeCondition{
			{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse},
			{Type: v1.NodeReady, Status: status, Reason: "HostLinkDown", Message: "192.0.2.1: no route"},
		}}}
	}
	if err := registered(node(v1.ConditionTrue)); err != nil {
		t.Errorf("a node that is Ready: %v", err)
	}
	for name, tc := range map[string]struct {
		node *v1.Node
		want string
	}{
		"none":      {nil, "not registered"},
		"new":       {&v1.Node{}, "nothing is known"},
		"not ready": {node(v1.ConditionFalse), "HostLinkDown"},
		"unknown":   {node(v1.ConditionUnknown), "no route"},
	} {
		if err := registered(tc.node); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
