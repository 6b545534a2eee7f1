// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tombolo-dev/tombolo/link/sshlink"
)

// Schemes of targets.
const (
	// SchemeUnix is a socket of the container runtime on the same machine.
	SchemeUnix = "unix"
	// SchemeTLS is a host process, reached over TCP with TLS 1.3 and certificates on both sides.
	SchemeTLS = "tls"
	// SchemeSSH is a machine with an SSH server, on which a host process is started for each connection.
	SchemeSSH = "ssh"
	// SchemeReverse is a host process that connects to this side, with TLS 1.3 and certificates on both sides.
	SchemeReverse = "reverse"
)

// Target is where a link leads.
type Target struct {
	// Scheme is one of the Scheme constants.
	Scheme string
	// Address is a socket path for SchemeUnix, host:port for SchemeTLS, user@host:port for SchemeSSH and for SchemeReverse the name
	// in the host's certificate.
	Address string
}

// ParseTarget reads a target from its text form: unix:///run/containerd/containerd.sock, tls://host:port,
// ssh://user@host[:port] or reverse://name. An error is InvalidArgument.
func ParseTarget(text string) (Target, error) {
	scheme, address, ok := strings.Cut(text, "://")
	if !ok {
		return Target{}, fmt.Errorf("target %q: use unix:///path/of/containerd.sock, tls://host:port, ssh://user@host or reverse://name: %w", text, errdefs.ErrInvalidArgument)
	}
	switch scheme {
	case SchemeUnix:
		if !filepath.IsAbs(address) {
			return Target{}, fmt.Errorf("target %q: the path of the socket must be absolute, as in unix:///run/containerd/containerd.sock: %w", text, errdefs.ErrInvalidArgument)
		}
	case SchemeTLS:
		host, port, err := net.SplitHostPort(address)
		if err != nil || !sshlink.IsHost(host) {
			return Target{}, fmt.Errorf("target %q: use tls://host:port: %w", text, errdefs.ErrInvalidArgument)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return Target{}, fmt.Errorf("target %q: give a port from 1 to 65535, as in tls://%s: %w", text, net.JoinHostPort(host, "8470"), errdefs.ErrInvalidArgument)
		}
	case SchemeSSH:
		parsed, err := sshlink.ParseAddress(address)
		if err != nil {
			return Target{}, fmt.Errorf("target ssh://user@host[:port]: %w", err)
		}
		address = parsed.String()
	case SchemeReverse:
		if why := validation.IsDNS1123Subdomain(address); len(why) > 0 {
			return Target{}, fmt.Errorf("target %q: use reverse://name, with the name in the host's certificate (no port belongs here): %w", text, errdefs.ErrInvalidArgument)
		}
	default:
		return Target{}, fmt.Errorf("target %q: scheme %q is not known, use unix, tls, ssh or reverse: %w", text, scheme, errdefs.ErrInvalidArgument)
	}
	return Target{Scheme: scheme, Address: address}, nil
}

// String returns the text form.
func (t Target) String() string { return t.Scheme + "://" + t.Address }

// serverName is the name that the host's certificate must carry: the one that is asked for, or else the host part of the target.
func (t Target) serverName(asked string) (string, error) {
	if asked != "" {
		return asked, nil
	}
	host, _, err := net.SplitHostPort(t.Address)
	if err != nil {
		return "", fmt.Errorf("target %s: %w: %w", t, err, errdefs.ErrInvalidArgument)
	}
	return host, nil
}
