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

// errReplaced is why a connection ends when the host has made another one.
var errReplaced = errors.New("the host has made another connection, which takes over")

// conn is a connection of the host.
type conn struct {
	*tls.Conn
	// ended is called once, at the end.
	ended    func(*conn)
	once     sync.Once
	replaced atomic.Bool
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
	if err != nil && c.replaced.Load() {
		return errReplaced
	}
	return err
}

// Close ends the connection.
func (c *conn) Close() error {
	c.once.Do(func() { c.ended(c) })
	return c.Conn.Close()
}

// replace ends the connection in favour of another one, without a word to the other end: it may be half dead.
func (c *conn) replace() {
	c.replaced.Store(true)
	c.once.Do(func() { c.ended(c) })
	_ = c.NetConn().Close()
}
