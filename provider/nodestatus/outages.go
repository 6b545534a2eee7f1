// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/provider/machine"
)

// outages are those that events have told of, nil for what was up.
type outages struct{ link, runtime *machine.Outage }

// reportOutages records an event when the link or the container runtime goes down or comes back. NodeNotReady tells neither which it
// is nor since when, and comes for anything else, too.
func (c *Controller) reportOutages(s *machine.State) {
	if c.sent == nil {
		return // no node to report it of
	}
	was := c.outages
	c.outages = outages{s.Link, s.RuntimeDown}
	c.reportOutage(was.link, s.Link, ReasonHostLinkDown, s.LinkError, "HostLinkUp", "link to host "+s.Target+" is up again")
	c.reportOutage(was.runtime, s.RuntimeDown, "ContainerRuntimeDown", s.RuntimeError, "ContainerRuntimeUp", "container runtime answers again")
}

// reportOutage records one change, if there is one.
func (c *Controller) reportOutage(was, is *machine.Outage, down string, why func() error, up, words string) {
	switch {
	case was == nil && is != nil:
		c.Event(v1.EventTypeWarning, down, why().Error())
	case was != nil && is == nil:
		c.Event(v1.EventTypeNormal, up, fmt.Sprintf("%s; it was down since %s", words, was.Since.UTC().Format(time.RFC3339)))
	}
}
