// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Host stands for a remote machine that runs containerd and nothing else.
type Host struct {
	cluster *Cluster
	name    string
	index   uint32
}

// HostOptions say how a host differs from others.
type HostOptions struct {
	// WithoutContainerd leaves containerd stopped, as on a machine that has just booted. Images are imported all the same.
	WithoutContainerd bool
	// Registry is the URL of a registry that containerd asks for images of registry.k8s.io, or "" for none. The images are
	// imported all the same; it is for pods that want a pull in any case.
	Registry string
	// BehindNAT puts a router between the host and everybody else, which lets connections out and none in. Address is that of
	// the router.
	BehindNAT bool
}

// hostName is what a host may be called: a label, since it is a host name, the name of a cgroup and usually of a node.
var hostName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?$`)

// AddHost makes a host and returns when its containerd answers and has the test images.
func (c *Cluster) AddHost(ctx context.Context, name string, opts HostOptions) (*Host, error) {
	begin := time.Now()
	h, err := c.reserveHost(name)
	if err != nil {
		return nil, err
	}
	err = h.create(ctx, opts.BehindNAT)
	if err == nil && opts.Registry != "" {
		err = h.writeRegistryConfig(opts.Registry)
	}
	if err == nil {
		err = h.StartContainerd(ctx)
	}
	if err == nil {
		err = h.importImages(ctx)
	}
	if err == nil && opts.WithoutContainerd {
		err = h.StopContainerd(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("adding host %s: %w", name, err), h.Remove(context.WithoutCancel(ctx)))
	}
	c.progress("host "+name+" at "+h.Address().String(), begin)
	return h, nil
}

// reserveHost records a host under a free index.
func (c *Cluster) reserveHost(name string) (*Host, error) {
	if !hostName.MatchString(name) {
		return nil, fmt.Errorf("host name %q: want at most 32 lower case letters, digits and dashes", name)
	}
	c.hostsMu.Lock()
	defer c.hostsMu.Unlock()
	if c.hosts[name] != nil {
		return nil, fmt.Errorf("host %s exists already", name)
	}
	index := uint32(1)
	for slices.ContainsFunc(c.store.get().Hosts, func(h hostState) bool { return h.Index == index }) {
		index++
	}
	if index > maxHosts {
		return nil, fmt.Errorf("adding host %s: a testbed has addresses for %d hosts", name, maxHosts)
	}
	if err := c.store.update(func(s *state) { s.Hosts = append(s.Hosts, hostState{Name: name, Index: index}) }); err != nil {
		return nil, err
	}
	h := &Host{cluster: c, name: name, index: index}
	c.hosts[name] = h
	return h, nil
}

// Host returns the host of that name, or nil.
func (c *Cluster) Host(name string) *Host {
	c.hostsMu.Lock()
	defer c.hostsMu.Unlock()
	return c.hosts[name]
}

// Hosts returns all hosts, ordered by name.
func (c *Cluster) Hosts() []*Host {
	c.hostsMu.Lock()
	defer c.hostsMu.Unlock()
	all := make([]*Host, 0, len(c.hosts))
	for _, h := range c.hosts {
		all = append(all, h)
	}
	slices.SortFunc(all, func(a, b *Host) int { return strings.Compare(a.name, b.name) })
	return all
}

// Name is the host's name, which is also its host name.
func (h *Host) Name() string { return h.name }

// Address is the host's address. This side and the other hosts reach it.
func (h *Host) Address() netip.Addr { return h.cluster.addresses().host(h.index) }

// PodCIDR is the network of the host's pods. This side has a route to it.
func (h *Host) PodCIDR() netip.Prefix { return h.cluster.addresses().pods(h.index) }

// Dir is a folder for whatever belongs to the host; it has the same path on the host and here. Mounts made there on the host
// are not seen here.
func (h *Host) Dir() string { return filepath.Join(h.cluster.StateDir(), "hosts", h.name) }

// ContainerdSocket is the path of containerd's socket, on the host and here.
func (h *Host) ContainerdSocket() string { return filepath.Join(h.Dir(), "containerd.sock") }

// EnterScript is the path of a script that runs a command on the host: EnterScript() CMD ARGS...
func (h *Host) EnterScript() string { return filepath.Join(h.Dir(), "enter") }

// Changes is a folder with the files that were written to /etc (sub-folder etc) or /var (sub-folder var) on the host.
func (h *Host) Changes() string { return filepath.Join(h.Dir(), "changes") }

// Command returns a command that runs on the host. The process id of the started command is that of the program itself. It
// is in the host's cgroup and dies with the host.
func (h *Host) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return h.cluster.Command(ctx, h.EnterScript(), append([]string{name}, args...)...)
}

// Run starts a command made by Command that runs until it is stopped, with its output in <LogDir>/<host>-<name>.log.
func (h *Host) Run(name string, cmd *exec.Cmd) (*Process, error) {
	return h.cluster.run(h.name, h.name+"-"+name, cmd)
}

// Exec runs a command on the host and returns what it wrote to standard output; the error has what it wrote to standard
// error.
func (h *Host) Exec(ctx context.Context, name string, args ...string) (string, error) {
	return output(h.Command(ctx, name, args...))
}

// Disconnect pulls the host's network cable. Connections are not reset: nothing answers any more.
func (h *Host) Disconnect(ctx context.Context) error {
	return ip(ctx, "link set "+vethName(h.cluster.id, h.index)+" down")
}

// Reconnect puts the cable back.
func (h *Host) Reconnect(ctx context.Context) error {
	return ip(ctx, "link set "+vethName(h.cluster.id, h.index)+" up")
}

// Remove kills everything on the host and removes it with its files. Logs stay. A second call does nothing.
func (h *Host) Remove(ctx context.Context) error {
	c := h.cluster
	if err := removeCgroup(ctx, filepath.Join(runCgroup(c.id), h.name)); err != nil {
		return fmt.Errorf("removing host %s: %w", h.name, err)
	}
	if err := removeLinks(ctx, vethName(c.id, h.index)); err != nil {
		return fmt.Errorf("removing host %s: %w", h.name, err)
	}
	// Its place, and so its network, may be another host's next.
	if err := ip(ctx, "route flush exact "+h.PodCIDR().String()); err != nil {
		return fmt.Errorf("removing host %s: %w", h.name, err)
	}
	if err := os.RemoveAll(h.Dir()); err != nil {
		return fmt.Errorf("removing host %s: %w", h.name, err)
	}
	c.hostsMu.Lock()
	defer c.hostsMu.Unlock()
	delete(c.hosts, h.name)
	return c.store.update(func(s *state) {
		s.Hosts = slices.DeleteFunc(s.Hosts, func(e hostState) bool { return e.Name == h.name })
		s.Processes = slices.DeleteFunc(s.Processes, func(p recorded) bool { return !p.alive() })
	})
}

// create makes the host's cgroup, namespaces and network.
func (h *Host) create(ctx context.Context, behindNAT bool) error {
	if err := os.MkdirAll(h.Dir(), 0o755); err != nil {
		return fmt.Errorf("making the host's folder: %w", err)
	}
	if err := makeHostCgroup(h.cluster.id, h.name); err != nil {
		return err
	}
	pid, err := h.startNamespaces(ctx)
	if err != nil {
		return err
	}
	if behindNAT {
		return h.connectBehindNAT(ctx, pid)
	}
	return h.connect(ctx, pid)
}

// connect joins the host to the bridge and gives it addresses and routes.
func (h *Host) connect(ctx context.Context, pid int) error {
	id := h.cluster.id
	outer := vethName(id, h.index)
	err := ip(ctx,
		"link add "+outer+" type veth peer name eth0 netns "+strconv.Itoa(pid),
		"link set "+outer+" master "+bridgeName(id),
		"link set "+outer+" up",
	)
	if err != nil {
		return err
	}
	script := fmt.Sprintf("ip link set lo up && ip address add %s/%d dev eth0 && ip link set eth0 up && ip route add default via %s"+
		" && echo 1 >/proc/sys/net/ipv4/ip_forward", h.Address(), networkBits, h.cluster.Address())
	if _, err := h.Exec(ctx, "sh", "-c", script); err != nil {
		return err
	}
	return ip(ctx, fmt.Sprintf("route add %s via %s dev %s", h.PodCIDR(), h.Address(), bridgeName(id)))
}
