// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"context"
	"net"
	"net/url"

	"github.com/tombolo-dev/tombolo/link/join"
	"github.com/tombolo-dev/tombolo/link/reverse"
)

// Join asks the node at an address for a certificate with a token, through a proxy if there is one.
func Join(ctx context.Context, address string, proxy *url.URL, token join.Token, wish join.Wish) (*join.Identity, error) {
	serverName, dial, err := wayTo(address, proxy)
	if err != nil {
		return nil, err
	}
	return join.Ask(ctx, dial, serverName, token, wish)
}

// Renew asks the node at an address for another certificate with one that is still good.
func (c *Certificates) Renew(ctx context.Context, address string, proxy *url.URL, name string) (*join.Identity, error) {
	serverName, dial, err := wayTo(address, proxy)
	if err != nil {
		return nil, err
	}
	return join.Renew(ctx, dial, c.hostConfig(join.Protocol, serverName, nil), name)
}

// wayTo is how an address is dialled.
func wayTo(address string, proxy *url.URL) (serverName string, dial join.Dial, err error) {
	if err := CheckConnect(address); err != nil {
		return "", nil, err
	}
	serverName, _, err = net.SplitHostPort(address)
	return serverName, func(ctx context.Context) (net.Conn, error) { return dialBy(proxy)(ctx, address) }, err
}

// dialBy dials through a proxy, or directly if it is nil.
func dialBy(proxy *url.URL) reverse.Dialer {
	if proxy == nil {
		return dialTCP
	}
	return reverse.Through(proxy, dialTCP)
}
