// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"context"
	"errors"
	"net"
	"slices"
)

// guest is a connection of somebody of whom nothing is known yet.
type guest struct {
	raw  net.Conn
	away context.CancelFunc // ends what is under way with it
}

var errBusy = errors.New("it took up room that others needed, and had not shown who it is")

// letIn lets a guest in, and the oldest one out if they are too many. The guest stays one until known is called.
func (a *Acceptor) letIn(raw net.Conn, away context.CancelFunc) (known func()) {
	g := &guest{raw, away}
	a.mu.Lock()
	a.guests = append(a.guests, g)
	var oldest *guest
	if len(a.guests) > maxHandshakes {
		oldest = a.guests[0]
		a.guests = a.guests[1:]
	}
	a.mu.Unlock()
	if oldest != nil {
		a.refuse(oldest.raw, refusedBusy, errBusy)
		oldest.away()
	}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.guests = slices.DeleteFunc(a.guests, func(other *guest) bool { return other == g })
	}
}
