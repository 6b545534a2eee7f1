// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package guestlist

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// sitePrefix is how much of an IPv6 address is the same for all of one site's machines: whoever has one such address has all of them.
const sitePrefix = 64

// guest is somebody of whom nothing is known yet.
type guest struct {
	source string
	away   func()
}

// List has the guests that are there.
type List struct {
	most int

	mu     sync.Mutex
	guests []*guest // the oldest first
}

// New returns an empty list for so many guests.
func New(most int) *List { return &List{most: most} }

// LetIn lets a guest in. If they are too many then, the oldest one has to go of those that have the same source as most others, and its
// away is called: who comes from one place, however often, does not drive out who comes from another. The guest stays one until known
// is called.
func (l *List) LetIn(from net.Addr, away func()) (known func()) {
	g := &guest{source: sourceOf(from), away: away}
	l.mu.Lock()
	l.guests = append(l.guests, g)
	var out *guest
	if len(l.guests) > l.most {
		out = l.oneTooMany()
		l.remove(out)
	}
	l.mu.Unlock()
	if out != nil {
		out.away()
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.remove(g)
	}
}

// oneTooMany is the oldest guest of the source that has most. Of several such sources it is the one that was there first.
func (l *List) oneTooMany() *guest {
	counts := map[string]int{}
	for _, g := range l.guests {
		counts[g.source]++
	}
	out := l.guests[0]
	for _, g := range l.guests {
		if counts[g.source] > counts[out.source] {
			out = g
		}
	}
	return out
}

func (l *List) remove(g *guest) {
	l.guests = slices.DeleteFunc(l.guests, func(other *guest) bool { return other == g })
}

// sourceOf is what guests of one machine have in common: the address, of IPv6 the network.
func sourceOf(from net.Addr) string {
	parsed, err := netip.ParseAddrPort(from.String())
	if err != nil {
		return from.String()
	}
	address := parsed.Addr().Unmap().WithZone("")
	if address.Is4() {
		return address.String()
	}
	return netip.PrefixFrom(address, sitePrefix).Masked().String()
}
