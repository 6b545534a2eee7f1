// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/provider/machine"
)

// resolvConf is where hosts have what their pods' resolv.conf is made of.
const resolvConf = "/etc/resolv.conf"

// reportResolvConf records an event if pods cannot get all search domains of the host: when this process first sees the file, as a kubelet
// does when it starts, and whenever it changes.
func (c *Controller) reportResolvConf(s *machine.State) {
	if c.sent == nil || s.Facts == nil {
		return
	}
	if c.resolvConf != nil && *c.resolvConf == s.Facts.ResolvConf {
		return
	}
	c.resolvConf = &s.Facts.ResolvConf
	if problem := cri.ResolvConfProblem(resolvConf, s.Facts.ResolvConf, c.opts.Config.ClusterDomain); problem != "" {
		c.Event(v1.EventTypeWarning, "CheckLimitsForResolvConf", problem)
	}
}
