// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/tombolo-dev/tombolo/test/images"
)

// maxStateDir keeps the paths of sockets below a state folder within the 107 bytes the kernel allows.
const maxStateDir = 60

// Options say how to start a testbed. The zero value is usable.
type Options struct {
	// StateDir is the folder for everything the testbed writes; it must not hold a testbed. Empty means a new temporary folder.
	StateDir string
	// Bin is the folder with the programs. Empty means the folder on the PATH that has kube-apiserver, else the one that
	// tools/cmd/parts names.
	Bin string
	// Log receives lines that say what is started and how long it took. Nil discards them.
	Log io.Writer
	// Detach lets everything outlive this process. Otherwise the kernel kills what was started here when this process ends.
	Detach bool
	// Images are what the hosts have. The zero value is enough for most.
	Images images.Set
	// APIServerFlags are added to those of kube-apiserver, where a later one wins.
	APIServerFlags []string
	// ControllerManagerFlags are added to those of kube-controller-manager in the same way.
	ControllerManagerFlags []string
}

// A Cluster is a running control plane and its hosts.
type Cluster struct {
	id    string
	store *store
	opts  Options // of Start; those of Open have Detach only

	log   io.Writer
	logMu sync.Mutex

	hostsMu sync.Mutex
	hosts   map[string]*Host

	archiveMu sync.Mutex
	archive   string // of the images, once it was assembled
}

// Start starts a control plane and returns when pods can be created. After an error nothing is left but the log files,
// which the error names. The context bounds the start only.
func Start(ctx context.Context, opts Options) (*Cluster, error) {
	begin := time.Now()
	if os.Geteuid() != 0 {
		return nil, errors.New("starting testbed: it makes namespaces, mounts and cgroups: run as root")
	}
	bin, err := findBin(ctx, opts.Bin)
	if err != nil {
		return nil, err
	}
	dir, err := makeStateDir(opts.StateDir)
	if err != nil {
		return nil, err
	}
	st, err := createStore(dir, state{ID: newID(), Bin: bin})
	if err != nil {
		return nil, err
	}
	c := newCluster(st, opts)
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(err, c.teardown(context.WithoutCancel(ctx)))
	}
	c.progress("control plane", begin)
	return c, nil
}

// Open returns the testbed of a state folder that another process started with Detach. The error wraps os.ErrNotExist if
// there is none. Processes of the testbed stay children of others; Stop and the methods of hosts work all the same.
func Open(stateDir string) (*Cluster, error) {
	dir, err := filepath.Abs(stateDir)
	if err != nil {
		return nil, fmt.Errorf("opening testbed: %w", err)
	}
	st, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	c := newCluster(st, Options{Detach: true})
	for _, h := range st.get().Hosts {
		c.hosts[h.Name] = &Host{cluster: c, name: h.Name, index: h.Index}
	}
	return c, nil
}

func newCluster(st *store, opts Options) *Cluster {
	log := opts.Log
	if log == nil {
		log = io.Discard
	}
	return &Cluster{id: st.get().ID, store: st, opts: opts, log: log, hosts: map[string]*Host{}}
}

func makeStateDir(dir string) (string, error) {
	if dir == "" {
		made, err := os.MkdirTemp("", tempPrefix)
		if err == nil {
			err = os.Chmod(made, 0o711) // root of a pod's own user namespace is somebody else here, and its files are below
		}
		if err != nil {
			return "", fmt.Errorf("making state folder: %w", err)
		}
		dir = made
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("making state folder: %w", err)
	}
	if len(dir) > maxStateDir {
		return "", fmt.Errorf("state folder %s: its path is longer than %d bytes, too long for sockets below it", dir, maxStateDir)
	}
	if strings.ContainsAny(dir, " \t\n,:'\"\\") {
		return "", fmt.Errorf("state folder %q: blanks, commas, colons, quotes and backslashes do not work in mount options", dir)
	}
	if err := os.MkdirAll(filepath.Join(dir, "logs"), 0o755); err != nil {
		return "", fmt.Errorf("making state folder: %w", err)
	}
	return dir, nil
}

func (c *Cluster) start(ctx context.Context) error {
	if err := makeBridge(ctx, c.store); err != nil {
		return err
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	server := "https://" + net.JoinHostPort(c.Address().String(), strconv.Itoa(port))
	if err := c.store.update(func(s *state) { s.Server = server }); err != nil {
		return err
	}
	if err := c.createPKI(); err != nil {
		return err
	}
	if _, err := c.UserKubeconfig(adminUser, "system:masters"); err != nil {
		return err
	}
	return c.startControlPlane(ctx)
}

// Stop stops everything and removes everything but the logs.
func (c *Cluster) Stop(ctx context.Context) error {
	begin := time.Now()
	if err := c.teardown(ctx); err != nil {
		return err
	}
	c.progress("stopping the testbed", begin)
	return nil
}

// StateDir is the folder with everything the testbed writes.
func (c *Cluster) StateDir() string { return c.store.dir }

// LogDir is the folder with a log file for each process, which stays after Stop.
func (c *Cluster) LogDir() string { return filepath.Join(c.StateDir(), "logs") }

// Bin is the folder of the programs: kubectl, crictl, ctr and the others.
func (c *Cluster) Bin() string { return c.store.get().Bin }

// Server is the URL of the API server. Hosts and their pods reach it too.
func (c *Cluster) Server() string { return c.store.get().Server }

// Address is this side's address on the network of the hosts. A node process uses it as its node address, and hosts dial it.
func (c *Cluster) Address() netip.Addr { return c.addresses().bridge() }

// ServiceCIDR is the range of the cluster addresses of Services. Nothing routes it.
func (c *Cluster) ServiceCIDR() netip.Prefix { return c.addresses().services() }

// CAFile is the authority that signs the API server's certificate, all clients' and, with ServingCert, the kubelets'.
func (c *Cluster) CAFile() string { return c.pair("ca").cert }

// FreePort returns a TCP port that nothing listens on at the moment, at any address of this side.
func (c *Cluster) FreePort() (int, error) { return freePort() }

func (c *Cluster) addresses() addresses { return addresses{c.store.get().Block} }

// progress prints one line about something that took from begin until now.
func (c *Cluster) progress(what string, begin time.Time) {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	fmt.Fprintf(c.log, "testbed: %s, %.1f s\n", what, time.Since(begin).Seconds())
}
