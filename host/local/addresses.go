// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Interface is a network interface that is up.
type Interface struct {
	Name      string
	Addresses []netip.Addr
}

// systemInterfaces returns the interfaces of the process's network namespace that are up.
func systemInterfaces() ([]Interface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	var out []Interface
	for _, each := range all {
		if each.Flags&net.FlagUp == 0 {
			continue
		}
		addresses, err := each.Addrs()
		if err != nil {
			continue // the interface has just gone
		}
		entry := Interface{Name: each.Name}
		for _, address := range addresses {
			if prefix, err := netip.ParsePrefix(address.String()); err == nil {
				entry.Addresses = append(entry.Addresses, prefix.Addr())
			}
		}
		out = append(out, entry)
	}
	return out, nil
}

// addresses returns the host's global unicast addresses, that of the default route first.
func (h *Host) addresses() []string {
	interfaces, err := h.interfaces()
	if err != nil {
		h.logger.Debug("the addresses of the machine cannot be read", "error", err)
		return nil
	}
	return sortAddresses(interfaces, parseDefaultRoute(h.read("proc/net/route")), parseDefaultRoute6(h.read("proc/net/ipv6_route")))
}

// sortAddresses puts the addresses of the IPv4 default route's interface first, then those of the IPv6 one, then all
// others in the order of their interfaces.
func sortAddresses(interfaces []Interface, default4, default6 string) []string {
	type ranked struct {
		address netip.Addr
		rank    int
	}
	var all []ranked
	for _, each := range interfaces {
		for _, address := range each.Addresses {
			address = address.Unmap().WithZone("")
			if !address.IsGlobalUnicast() {
				continue
			}
			entry := ranked{address: address, rank: 2}
			switch {
			case address.Is4() && each.Name == default4:
				entry.rank = 0
			case address.Is6() && each.Name == default6:
				entry.rank = 1
			}
			all = append(all, entry)
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return a.rank - b.rank })
	out := make([]string, 0, len(all))
	for _, entry := range all {
		if text := entry.address.String(); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}
