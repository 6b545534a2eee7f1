// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package hostconn

import (
	"fmt"
	"time"

	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/link/join"
)

// Join says how a host gets its certificate from the node.
type Join struct {
	// Dir is the node's directory for it, "" if certificates come from elsewhere.
	Dir string
	// Validity is that of the host's certificates.
	Validity time.Duration
}

// LinkFiles are the files of the link, whether or not they were made: those that are given, or else those of the node's own authority.
func (o *Options) LinkFiles(target link.Target) link.Files {
	if o.Join.Dir == "" {
		return o.Files
	}
	files := link.Files{Names: link.FileNames{CA: "--join-dir", Cert: "--join-dir", Key: "--join-dir"}}
	files.CAFile, files.CertFile, files.KeyFile = join.NodeFiles(o.Join.Dir, target.Address)
	return files
}

// openDesk makes the node's own authority, if that is wanted and it is not only for looking.
func (o *Options) openDesk(target link.Target) (*join.Desk, error) {
	if o.Join.Dir == "" {
		return nil, nil
	}
	open := join.MakeLedger
	if o.Inspect {
		open = func(dir, _ string, clk clock.Clock) (*join.Ledger, error) { return join.OpenLedger(dir, clk) }
	}
	ledger, err := open(o.Join.Dir, target.Address, o.Clock)
	if err != nil {
		return nil, fmt.Errorf("--join-dir: %w", err)
	}
	return join.NewDesk(join.DeskOptions{Ledger: ledger, Validity: o.Join.Validity, Logger: o.Logger, Registerer: o.Registerer}), nil
}
