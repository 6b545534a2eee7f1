// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package guestlist

import (
	"net"
	"net/netip"
	"slices"
	"testing"
)

func TestCrowdOfOneSourceDrivesNobodyElseOut(t *testing.T) {
	for name, tc := range map[string]struct {
		come []string
		out  []string // in order
	}{
		"all from one machine": {[]string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.1:4", "192.0.2.1:5"}, []string{"192.0.2.1:1", "192.0.2.1:2"}},
		"one came before them": {[]string{"198.51.100.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.1:4", "192.0.2.1:5"}, []string{"192.0.2.1:2", "192.0.2.1:3"}},
		"one comes after them": {[]string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "198.51.100.1:4", "192.0.2.1:5"}, []string{"192.0.2.1:1", "192.0.2.1:2"}},
		"each from another":    {[]string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1", "192.0.2.4:1"}, []string{"192.0.2.1:1"}},
		"one network of IPv6": {[]string{"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", "[2001:db8:0:2::2]:1", "[2001:db8:0:2:ffff::3]:1", "[2001:db8:0:2::4]:1"},
			[]string{"[2001:db8:0:2::1]:1", "[2001:db8:0:2::2]:1"}},
		"IPv4 in IPv6":         {[]string{"[::ffff:192.0.2.1]:1", "[::ffff:198.51.100.1]:2", "192.0.2.1:3", "203.0.113.1:4"}, []string{"[::ffff:192.0.2.1]:1"}},
		"as many as there may": {[]string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(3)
			var out []string
			for _, from := range tc.come {
				l.LetIn(net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)), func() { out = append(out, from) })
			}
			if !slices.Equal(out, tc.out) {
				t.Errorf("%q had to go, want %q", out, tc.out)
			}
		})
	}
}

func TestWhoIsKnownIsNoGuest(t *testing.T) {
	l := New(1)
	first := l.LetIn(&net.UnixAddr{Name: "a"}, func() { t.Error("who was known had to go") })
	first()
	gone := 0
	second := l.LetIn(&net.UnixAddr{Name: "b"}, func() { gone++ })
	l.LetIn(&net.UnixAddr{Name: "c"}, func() {})
	second() // although it is gone
	first()
	if gone != 1 || len(l.guests) != 1 {
		t.Errorf("%d had to go, %d are there", gone, len(l.guests))
	}
}
