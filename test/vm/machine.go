// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

// How long a machine may take, with a processor in software that shares two real ones with others.
const (
	bootTimeout  = 10 * time.Minute
	pollInterval = 500 * time.Millisecond
)

// Options say what a machine is.
type Options struct {
	// Name is the name of the machine and its host name; what hosts of a testbed may be called.
	Name string
	// Files are files that it only reads: they appear below /opt/vm.
	Files []File
	// Log receives lines that say what is done and how long it took.
	Log io.Writer
}

// A Machine is a running virtual machine.
type Machine struct {
	name    string
	port    *testbed.Port
	process *testbed.Process
	login   login

	mu     sync.Mutex
	client *ssh.Client
}

// Start boots a machine and returns when root can log in and its containerd answers and has the test images. It ends with the
// cluster.
func Start(ctx context.Context, cluster *testbed.Cluster, o Options) (*Machine, error) {
	if _, err := exec.LookPath(emulator); err != nil {
		return nil, fmt.Errorf("booting a virtual machine: %w: run go run -C tools ./cmd/parts build vm", err)
	}
	cache, err := testbed.CacheDir()
	if err != nil {
		return nil, err
	}
	img, err := provideImage(ctx, cache, o.Log)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	port, err := cluster.AddPort(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	m := &Machine{name: o.Name, port: port}
	err = m.boot(ctx, cluster, img, o)
	if err == nil {
		fmt.Fprintf(o.Log, "virtual machine: %s is up at %s (%.0f s)\n", o.Name, m.Address(), time.Since(begin).Seconds())
		err = m.importImages(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("booting machine %s: %w", o.Name, err), m.Stop(context.WithoutCancel(ctx)))
	}
	fmt.Fprintf(o.Log, "virtual machine: containerd has the images (%.0f s)\n", time.Since(begin).Seconds())
	return m, nil
}

func (m *Machine) boot(ctx context.Context, cluster *testbed.Cluster, img image, o Options) error {
	dir := filepath.Join(cluster.StateDir(), "machines", m.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var keys []File
	var err error
	if m.login, keys, err = newLogin(m.Address()); err != nil {
		return err
	}
	archive, err := cluster.ImageArchive(ctx)
	if err != nil {
		return err
	}
	files, readOnly, err := containerdFiles(cluster.Bin(), archive, m.port.PodCIDR())
	if err != nil {
		return err
	}
	payload, err := makePayload(ctx, dir, append(keys, files...), append(readOnly, o.Files...))
	if err != nil {
		return err
	}
	line := hardware{
		name: m.name, image: img, payload: payload, tap: m.port.Interface(), address: m.port.Address(), gateway: cluster.Address(),
	}.command()
	cmd := cluster.Command(context.WithoutCancel(ctx), line[0], line[1:]...)
	cmd.Env = append(cmd.Env, "TMPDIR="+dir) // what the machine writes
	if m.process, err = cluster.Run(m.name+"-console", cmd); err != nil {
		return err
	}
	return m.awaitLogin(ctx)
}

// importImages gives containerd the test images.
func (m *Machine) importImages(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	if _, err := m.Run(ctx, "systemctl start containerd && ctr --namespace k8s.io images import "+imagesFile); err != nil {
		journal, _ := m.Run(ctx, "journalctl --unit containerd --lines 25 --no-pager")
		return fmt.Errorf("importing images: %w\n%s", err, journal)
	}
	return nil
}

// awaitLogin waits until root can log in, but not longer than the machine lives.
func (m *Machine) awaitLogin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bootTimeout)
	defer cancel()
	for {
		_, err := m.Run(ctx, "true")
		if err == nil {
			return nil
		}
		select {
		case <-m.process.Done():
			return m.failure(fmt.Errorf("the machine ended: %w", m.process.Err()))
		case <-ctx.Done():
			return m.failure(fmt.Errorf("nobody can log in after %s: %w", bootTimeout, err))
		case <-time.After(pollInterval):
		}
	}
}

// failure adds the end of the console to an error.
func (m *Machine) failure(err error) error {
	return fmt.Errorf("%w, console: %s, last lines:\n%s", err, m.process.LogFile(), m.process.LogTail(25))
}

// Name is the name of the machine.
func (m *Machine) Name() string { return m.name }

// Address is its address on the network of the hosts.
func (m *Machine) Address() netip.Addr { return m.port.Address().Addr() }

// ConsoleFile is the file with what the machine writes to its console.
func (m *Machine) ConsoleFile() string { return m.process.LogFile() }

// Stop switches the machine off, as if its power failed, and removes it.
func (m *Machine) Stop(ctx context.Context) error {
	m.drop()
	var stopped error
	if m.process != nil {
		stopped = m.process.Stop(ctx)
	}
	return errors.Join(stopped, m.port.Remove(ctx))
}
