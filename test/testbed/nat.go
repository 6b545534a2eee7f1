// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// The network between a host behind NAT and its router. Nobody else sees it, so every such host has the same.
const (
	routerInside = "192.168.77.1"
	insideBits   = 24

	// InsideAddress is what a host behind NAT takes for its address.
	InsideAddress = "192.168.77.2"
)

// routerSetup turns the namespace it runs in into a router that lets connections out and none in. $1 is the outer address
// with its length, $2 the gateway.
const routerSetup = `set -e
ip link set lo up
ip address add "$1" dev eth0
ip link set eth0 up
ip route add default via "$2"
ip address add ` + routerInside + `/24 dev eth1
ip link set eth1 up
echo 1 > /proc/sys/net/ipv4/ip_forward
iptables -t nat -A POSTROUTING -o eth0 -j MASQUERADE
iptables -P INPUT DROP
iptables -P FORWARD DROP
iptables -A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
iptables -A FORWARD -i eth1 -o eth0 -j ACCEPT
`

func (h *Host) routerPID() string { return filepath.Join(h.Dir(), "router-pid") }

// connectBehindNAT joins the host to the bridge by way of a router in a network namespace of its own.
func (h *Host) connectBehindNAT(ctx context.Context, pid int) error {
	hold := fmt.Sprintf("echo $$ > %[1]s.new && mv %[1]s.new %[1]s && exec sleep infinity", h.routerPID())
	p, err := h.Run("router", h.Command(context.WithoutCancel(ctx), "unshare", "--net", "sh", "-c", hold))
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := poll(waiting, func() bool { return exists(h.routerPID()) || !p.record.alive() }); err != nil || !p.record.alive() {
		return p.failure("did not make the router's namespace")
	}
	id := h.cluster.id
	outer := vethName(id, h.index)
	if err := ip(ctx,
		"link add "+outer+" type veth peer name eth0 netns "+strconv.Itoa(p.PID()),
		"link set "+outer+" master "+bridgeName(id),
		"link set "+outer+" up",
	); err != nil {
		return err
	}
	if err := h.inRouter(ctx, "ip", "link", "add", "eth1", "type", "veth", "peer", "name", "eth0", "netns", strconv.Itoa(pid)); err != nil {
		return err
	}
	outside := fmt.Sprintf("%s/%d", h.Address(), networkBits)
	if err := h.inRouter(ctx, "sh", "-c", routerSetup, "router", outside, h.cluster.Address().String()); err != nil {
		return err
	}
	_, err = h.Exec(ctx, "sh", "-c", fmt.Sprintf("ip link set lo up && ip address add %s/%d dev eth0 && ip link set eth0 up && ip route add default via %s"+
		" && echo 1 >/proc/sys/net/ipv4/ip_forward", InsideAddress, insideBits, routerInside))
	return err
}

// inRouter runs a command in the network of the host's router.
func (h *Host) inRouter(ctx context.Context, args ...string) error {
	cmd, err := h.routerCommand(ctx, args...)
	if err != nil {
		return err
	}
	_, err = output(cmd)
	return err
}

// routerCommand returns a command that runs in the network of the host's router.
func (h *Host) routerCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	pid, err := os.ReadFile(h.routerPID())
	if err != nil {
		return nil, fmt.Errorf("finding the router of %s: %w", h.name, err)
	}
	return h.cluster.Command(ctx, "nsenter", append([]string{"--target", strings.TrimSpace(string(pid)), "--net", "--"}, args...)...), nil
}

// proxyPort is where the proxy of a router listens; the user's name and password are ProxyUser and ProxyPassword.
const (
	proxyPort     = 3128
	ProxyUser     = "edge"
	ProxyPassword = "open-sesame"
)

// proxyConfig allows CONNECT to the one port.
const proxyConfig = `Port %d
Listen %s
Allow %s
BasicAuth %s %s
ConnectPort %d
MaxClients 20
Timeout 600
LogLevel Connect
`

// StartProxy runs an HTTP proxy on the router of a host behind NAT, which lets ProxyUser through to one port. From then on nothing
// else gets out. The address is host:port, for the host.
func (h *Host) StartProxy(ctx context.Context, to uint16) (p *Process, address string, err error) {
	file := filepath.Join(h.Dir(), "proxy.conf")
	text := fmt.Sprintf(proxyConfig, proxyPort, routerInside, InsideAddress, ProxyUser, ProxyPassword, to)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", fmt.Errorf("starting the proxy of %s: %w", h.name, err)
	}
	for _, rule := range []string{
		"iptables -P FORWARD DROP", "iptables -F FORWARD",
		fmt.Sprintf("iptables -A INPUT -i eth1 -p tcp --dport %d -j ACCEPT", proxyPort),
		"iptables -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
	} {
		if err := h.inRouter(ctx, strings.Fields(rule)...); err != nil {
			return nil, "", err
		}
	}
	cmd, err := h.routerCommand(context.WithoutCancel(ctx), "tinyproxy", "-d", "-c", file)
	if err != nil {
		return nil, "", err
	}
	p, err = h.Run("proxy", cmd)
	return p, net.JoinHostPort(routerInside, strconv.Itoa(proxyPort)), err
}

// Reject has the router of a host behind NAT answer everything on TCP connections with a reset, until Accept.
func (h *Host) Reject(ctx context.Context) error {
	return h.inRouter(ctx, "iptables", "-I", "FORWARD", "1", "-p", "tcp", "-j", "REJECT", "--reject-with", "tcp-reset")
}

// Accept ends what Reject began.
func (h *Host) Accept(ctx context.Context) error {
	return h.inRouter(ctx, "iptables", "-D", "FORWARD", "1")
}
