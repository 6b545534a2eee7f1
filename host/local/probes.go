// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/local/probe"
)

// Probe makes one try from this machine.
func (h *Host) Probe(ctx context.Context, req host.ProbeRequest) (*host.ProbeResult, error) {
	return probe.Try(ctx, req)
}
