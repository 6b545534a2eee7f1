// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package hostconn

import (
	"strconv"

	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/sshlink"
)

// SSH says how to log in to a host and how its host process is run there.
type SSH struct {
	Jumps    []sshlink.Address
	HostKeys sshlink.HostKeys
	Identity sshlink.Identity
	// BinaryDir has programs for other architectures than this one, CacheDir is where they are put on the host.
	BinaryDir string
	CacheDir  string
	Sudo      bool
	// Containerd is the path of containerd's socket on the host, Policy of a policy file there, if there is one.
	Containerd string
	Policy     string
	// Verbosity is that of the host process's log, which comes back to ours.
	Verbosity int
}

// connectSSH starts a host process on a machine for each connection.
func connectSSH(o Options, target link.Target) (*Connection, error) {
	to, err := link.New(link.Options{Target: target, Clock: o.Clock, Logger: o.Logger, Registerer: o.Registerer, SSH: &sshlink.Options{
		Jumps:    o.SSH.Jumps,
		HostKeys: o.SSH.HostKeys,
		Identity: o.SSH.Identity,
		Binaries: &sshlink.Binaries{Dir: o.SSH.BinaryDir},
		CacheDir: o.SSH.CacheDir,
		Sudo:     o.SSH.Sudo,
		Args:     o.hostArgs(),
		Version:  o.Version,

		Clock: o.Clock, Logger: o.Logger, Registerer: o.Registerer,
	}})
	if err != nil {
		return nil, err
	}
	return connectRemote(o, to, remote.ConnOptions{
		ConnectTimeout: sshlink.ConnectTimeout,
		Down:           func() error { return to.State().Err },
	})
}

// hostArgs are the arguments of the host process.
func (o Options) hostArgs() []string {
	args := []string{
		"host", "--stdio", "--log-format=json", "--v=" + strconv.Itoa(o.SSH.Verbosity), "--containerd=" + o.SSH.Containerd,
		"--root=" + o.RootDir, "--pod-logs-dir=" + o.PodLogsDir,
	}
	if o.Inspect {
		args = append(args, "--inspect")
	}
	if o.SSH.Policy != "" {
		args = append(args, "--policy="+o.SSH.Policy)
	}
	return args
}
