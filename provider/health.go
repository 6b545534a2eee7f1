// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
)

// Health says how a node is. The zero value is one that has not begun. It may be used by any number of goroutines.
type Health struct {
	mu          sync.Mutex
	live, ready func() error
}

// Live is nil unless the process is stuck and has to be started again.
func (h *Health) Live() error {
	h.mu.Lock()
	live := h.live
	h.mu.Unlock()
	if live == nil {
		return nil
	}
	return live()
}

// Ready is nil while the node is Ready in the API. The error says what it waits for.
func (h *Health) Ready() error {
	h.mu.Lock()
	ready := h.ready
	h.mu.Unlock()
	if ready == nil {
		return errBegun
	}
	return ready()
}

var errBegun = errors.New("the node waits for the API server")

// waiting says what the node waits for before anything else.
func (h *Health) waiting(missing func() error) {
	h.set(nil, func() error {
		if err := missing(); err != nil {
			return err
		}
		return errBegun
	})
}

// assembled says that the parts of the node are there.
func (h *Health) assembled(n *assembly) {
	h.set(n.engine.Turning, func() error { return registered(n.status.Node()) })
}

func (h *Health) set(live, ready func() error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.live, h.ready = live, ready
}

// registered says what keeps a node from being Ready.
func registered(node *v1.Node) error {
	if node == nil {
		return errors.New("the node is not registered yet")
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status != v1.ConditionTrue {
			return fmt.Errorf("the node is not ready (%s): %s", c.Reason, c.Message)
		} else if c.Type == v1.NodeReady {
			return nil
		}
	}
	return errors.New("the node is registered, and nothing is known of it yet")
}
