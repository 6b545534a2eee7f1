// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// Reasons for which this side ends a connection.
var (
	errReplaced = errors.New("the host has made another connection, which takes over")
	errExpired  = errors.New("the certificate of the connection has expired")
	errRevoked  = errors.New("the certificate of the host is not good any more")
)

// conn is a connection of the host.
type conn struct {
	*tls.Conn
	// ended is called once, at the end.
	ended func(*conn)
	once  sync.Once
	cut   atomic.Pointer[error] // why this side ended it
}

var _ net.Conn = (*conn)(nil)

// Read reads from the connection.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.why(err)
}

// Write writes to the connection.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.why(err)
}

func (c *conn) why(err error) error {
	if why := c.cut.Load(); err != nil && why != nil {
		return *why
	}
	return err
}

// Close ends the connection.
func (c *conn) Close() error {
	c.once.Do(func() { c.ended(c) })
	return c.Conn.Close()
}

// end ends the connection without a word to the other end, which may be half dead or a stranger.
func (c *conn) end(why error) {
	c.cut.Store(&why)
	c.once.Do(func() { c.ended(c) })
	_ = c.NetConn().Close()
}
