// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package hostconn

import (
	"fmt"
	"time"

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

// openDesk makes the node's own authority, if that is wanted, and has the link use its files.
func (o *Options) openDesk(target link.Target) (*join.Desk, error) {
	if o.Join.Dir == "" {
		return nil, nil
	}
	ledger, err := join.MakeLedger(o.Join.Dir, target.Address, o.Clock)
	if err != nil {
		return nil, fmt.Errorf("--join-dir: %w", err)
	}
	o.Files = link.Files{Names: link.FileNames{CA: "--join-dir", Cert: "--join-dir", Key: "--join-dir"}}
	o.Files.CAFile, o.Files.CertFile, o.Files.KeyFile = ledger.Files(target.Address)
	return join.NewDesk(join.DeskOptions{Ledger: ledger, Validity: o.Join.Validity, Logger: o.Logger, Registerer: o.Registerer}), nil
}
