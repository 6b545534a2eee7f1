// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"syscall"
)

// Each testbed has one block of 16 networks of 1024 addresses: the first for the machines, the last for Services, the others
// for the pods of one host each.
const (
	blockBits   = 18
	networkBits = 22
	maxHosts    = 1<<(networkBits-blockBits) - 2
)

// pools are where blocks come from, in order. Others use these addresses too, so a block is taken only if nothing on the
// machine knows any address of it.
func pools() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.192.0.0/10"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("198.18.0.0/15"),
	}
}

// chooseBlock returns a block that overlaps none of those used. Where it starts to look depends on the identifier, so that
// testbeds made at the same time on machines that can reach each other rarely take the same.
func chooseBlock(id string, used []netip.Prefix) (netip.Prefix, error) {
	h := fnv.New32a()
	h.Write([]byte(id))
	for _, pool := range pools() {
		count := uint32(1) << (blockBits - pool.Bits())
		for i := range count {
			block := subnet(pool, blockBits, (h.Sum32()+i)%count)
			if !overlapsAny(block, used) {
				return block, nil
			}
		}
	}
	return netip.Prefix{}, fmt.Errorf("no free address block of /%d in %v: every one overlaps an address or a route of this machine",
		blockBits, pools())
}

// subnet returns the n-th network of the given size in a larger one.
func subnet(of netip.Prefix, bits int, n uint32) netip.Prefix {
	base := of.Masked().Addr().As4()
	address := binary.BigEndian.Uint32(base[:]) + n<<(32-bits)
	binary.BigEndian.PutUint32(base[:], address)
	return netip.PrefixFrom(netip.AddrFrom4(base), bits)
}

func overlapsAny(block netip.Prefix, used []netip.Prefix) bool {
	return slices.ContainsFunc(used, block.Overlaps)
}

// addresses are the numbers of a testbed, all derived from its block.
type addresses struct{ block netip.Prefix }

func (a addresses) machines() netip.Prefix { return subnet(a.block, networkBits, 0) }
func (a addresses) services() netip.Prefix {
	return subnet(a.block, networkBits, 1<<(networkBits-blockBits)-1)
}
func (a addresses) pods(index uint32) netip.Prefix { return subnet(a.block, networkBits, index) }
func (a addresses) bridge() netip.Addr             { return a.machines().Addr().Next() }
func (a addresses) host(index uint32) netip.Addr   { return subnet(a.machines(), 32, 1+index).Addr() }
func (a addresses) firstService() netip.Addr       { return a.services().Addr().Next() }

// Names of links hold at most 15 characters.
func bridgeName(id string) string             { return "tb-" + id }
func vethName(id string, index uint32) string { return fmt.Sprintf("tb-%s-%d", id, index) }

// makeBridge chooses a block, records it, and makes the bridge that carries it. The lock keeps another testbed from
// choosing the same between the look and the making.
func makeBridge(ctx context.Context, st *store) error {
	unlock, err := lockNetwork(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	used, err := usedPrefixes(ctx)
	if err != nil {
		return err
	}
	id := st.get().ID
	block, err := chooseBlock(id, used)
	if err != nil {
		return err
	}
	if err := st.update(func(s *state) { s.Block = block }); err != nil {
		return err
	}
	a := addresses{block}
	name := bridgeName(id)
	return ip(ctx,
		"link add "+name+" type bridge",
		fmt.Sprintf("address add %s/%d dev %s", a.bridge(), networkBits, name),
		"link set "+name+" up",
	)
}

// lockNetwork takes a lock that every testbed of this network namespace sees. An abstract socket is one that leaves no file
// and ends with its owner.
func lockNetwork(ctx context.Context) (unlock func(), err error) {
	var l net.Listener
	waited := poll(ctx, func() bool {
		l, err = net.Listen("unix", "@tombolo-testbed-network")
		return err == nil || !errors.Is(err, syscall.EADDRINUSE)
	})
	if waited != nil {
		return nil, fmt.Errorf("waiting for another testbed to choose its addresses: %w", waited)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the choice of addresses: %w", err)
	}
	return func() { l.Close() }, nil
}

// usedPrefixes returns everything this machine has an address in or a route to, but for default routes.
func usedPrefixes(ctx context.Context) ([]netip.Prefix, error) {
	out, err := exec.CommandContext(ctx, "ip", "-json", "-4", "route", "show", "table", "all").Output()
	if err != nil {
		return nil, fmt.Errorf("listing routes: %w", err)
	}
	used, err := parseRoutes(out)
	if err != nil {
		return nil, err
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range interfaces {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			used = append(used, p.Masked())
		}
	}
	return used, nil
}

// parseRoutes reads the output of ip -json route.
func parseRoutes(data []byte) ([]netip.Prefix, error) {
	var routes []struct {
		Dst string `json:"dst"`
	}
	if err := json.Unmarshal(data, &routes); err != nil {
		return nil, fmt.Errorf("reading the list of routes: %w", err)
	}
	var used []netip.Prefix
	for _, r := range routes {
		if r.Dst == "default" {
			continue
		}
		if p, err := netip.ParsePrefix(r.Dst); err == nil {
			used = append(used, p.Masked())
		} else if a, err := netip.ParseAddr(r.Dst); err == nil {
			used = append(used, netip.PrefixFrom(a, a.BitLen()))
		} else {
			return nil, fmt.Errorf("reading the list of routes: destination %q", r.Dst)
		}
	}
	return used, nil
}

// ip runs ip commands one after the other.
func ip(ctx context.Context, commands ...string) error {
	for _, c := range commands {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, strings.TrimSpace(string(out)))
		}
	}
	return nil
}

// removeLinks removes the link of a name and those whose names continue it after a dash; routes through them go with them.
func removeLinks(ctx context.Context, name string) error {
	interfaces, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("listing network links: %w", err)
	}
	var failed []error
	for _, i := range interfaces {
		if i.Name != name && !strings.HasPrefix(i.Name, name+"-") {
			continue
		}
		// A veth pair may go by itself between the list and the removal, with the namespace of its other end.
		if err := ip(ctx, "link delete "+i.Name); err != nil {
			if _, gone := net.InterfaceByName(i.Name); gone == nil {
				failed = append(failed, err)
			}
		}
	}
	return errors.Join(failed...)
}
