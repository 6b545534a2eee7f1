// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/provider/machine"
)

// The clocks of host and node process count as apart above the one, and as together again below the other.
const (
	skewAlarm = 10 * time.Second
	skewClear = 5 * time.Second
)

// skew remembers whether the clocks are apart.
type skew bool

// next says whether the clocks are apart now.
func (s skew) next(offset time.Duration) skew {
	if s {
		return offset.Abs() >= skewClear
	}
	return offset.Abs() > skewAlarm
}

// reportSkew records an event when the clocks come apart. Nothing depends on it but the times people read: what has to
// be on time is timed by our own clock.
func (c *Controller) reportSkew(s *machine.State) {
	if c.sent == nil {
		return // no node to report it of
	}
	was := c.skew
	c.skew = was.next(s.ClockOffset)
	if c.skew && !was {
		c.Event(v1.EventTypeWarning, "HostClockSkew", fmt.Sprintf(
			"The clock of host %s is %s off: times in container statuses and logs are the host's; synchronise its clock",
			s.Target, s.ClockOffset.Round(time.Second)))
	}
}
