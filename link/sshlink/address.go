// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/util/validation"
)

// defaultPort is where SSH servers listen.
const defaultPort = "22"

// Address is a user on an SSH server.
type Address struct {
	User string
	// Host is a DNS name or an IP address.
	Host string
	Port string
}

// ParseAddress reads user@host or user@host:port. An IPv6 address is in brackets. An error is InvalidArgument.
func ParseAddress(text string) (Address, error) {
	wrong := func(why string) (Address, error) {
		return Address{}, fmt.Errorf("%q: %s: %w", text, why, errdefs.ErrInvalidArgument)
	}
	at := strings.LastIndexByte(text, '@')
	if at < 0 {
		return wrong("use user@host or user@host:port")
	}
	a := Address{User: text[:at], Port: defaultPort}
	switch {
	case strings.ContainsRune(a.User, ':'):
		// The text may hold a secret, so it is not repeated.
		return Address{}, fmt.Errorf("there is a password: use user@host, and a key to log in with: %w", errdefs.ErrInvalidArgument)
	case !isUser(a.User):
		return wrong("the user's name is not one: use user@host or user@host:port")
	}
	a.Host = text[at+1:]
	if literal := strings.TrimSuffix(strings.TrimPrefix(a.Host, "["), "]"); len(a.Host) == len(literal)+2 {
		a.Host = literal
	} else if strings.ContainsRune(a.Host, ':') {
		host, port, err := net.SplitHostPort(a.Host)
		if err != nil {
			return wrong("use user@host:port, and brackets around an IPv6 address")
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 {
			return wrong("give a port from 1 to 65535, or none for 22")
		}
		a.Host, a.Port = host, strconv.FormatUint(n, 10)
	}
	if !IsHost(a.Host) {
		return wrong("the host is neither a DNS name nor an IP address: use user@host or user@host:port")
	}
	return a, nil
}

// isUser says whether text may be the name of a user: something visible without what separates the parts of an address.
func isUser(text string) bool {
	for _, r := range text {
		if r <= ' ' || r > '~' || strings.ContainsRune(`/"'`, r) {
			return false
		}
	}
	return text != "" && text[0] != '-'
}

// IsHost says whether text is an IP address or a DNS name. A name may be in any case and end with a dot.
func IsHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	return len(validation.IsDNS1123Subdomain(strings.ToLower(strings.TrimSuffix(text, ".")))) == 0
}

// HostPort is what is dialed.
func (a Address) HostPort() string { return net.JoinHostPort(a.Host, a.Port) }

// String returns the text form, with the port.
func (a Address) String() string { return a.User + "@" + a.HostPort() }
