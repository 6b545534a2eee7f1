// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package hostconn

import "time"

// skew is that the host is there and of no use: its version is too far from ours.
type skew struct {
	since time.Time
	err   error
}

// negotiated returns what is told of the host's version on each connection, one at a time.
func (c *Connection) negotiated(o Options) func(host string, err error) {
	return func(host string, err error) {
		former := c.skew.Load()
		switch {
		case err == nil:
			c.skew.Store(nil)
			if host != o.Version {
				o.Logger.Info("The host is of another version, and understood", "target", c.Target, "host_version", host, "version", o.Version)
			}
		case former == nil || former.err.Error() != err.Error():
			c.skew.Store(&skew{since: o.Clock.Now(), err: err})
			o.Logger.Error("The host is not used", "target", c.Target, "error", err)
		}
	}
}
