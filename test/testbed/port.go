// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
)

// A Port is a place on the network of the hosts for a machine that is none of them, such as a virtual one. What is at the
// other end of its tap device gives itself the port's address.
type Port struct {
	host *Host // which has an address and nothing else
}

// AddPort makes a port. Its name is one of those that hosts have.
func (c *Cluster) AddPort(ctx context.Context, name string) (*Port, error) {
	h, err := c.reserveHost(name)
	if err != nil {
		return nil, err
	}
	p := &Port{host: h}
	bridge := bridgeName(c.id)
	err = ip(ctx,
		"tuntap add dev "+p.Interface()+" mode tap",
		"link set "+p.Interface()+" master "+bridge+" up",
		fmt.Sprintf("route add %s via %s dev %s", p.PodCIDR(), p.Address().Addr(), bridge),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("adding port %s: %w", name, err), p.Remove(context.WithoutCancel(ctx)))
	}
	return p, nil
}

// Interface is the name of the tap device on this side.
func (p *Port) Interface() string { return vethName(p.host.cluster.id, p.host.index) }

// Address is the address for the machine, with the length of the network's prefix.
func (p *Port) Address() netip.Prefix { return netip.PrefixFrom(p.host.Address(), networkBits) }

// PodCIDR is the network for the machine's pods. This side has a route to it.
func (p *Port) PodCIDR() netip.Prefix { return p.host.PodCIDR() }

// Remove removes the port. The end of the testbed does so, too.
func (p *Port) Remove(ctx context.Context) error { return p.host.Remove(ctx) }
