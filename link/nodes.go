// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tombolo-dev/tombolo/link/safetext"
)

// Nodes are the names of the nodes that may lead a host: those in their certificates (common name). None at all: every node of the
// authority may.
type Nodes []string

// nodeNameError is a node of the authority that may not lead this host. Its text is short, whatever the names are.
type nodeNameError struct{ text string }

// Error says which node came, which ones may, and what to do.
func (e *nodeNameError) Error() string { return e.text }

// check refuses the certificate of another node.
func (n Nodes) check(state tls.ConnectionState) error {
	if len(n) == 0 {
		return nil
	}
	if len(state.PeerCertificates) == 0 {
		return errors.New("the peer shows no certificate")
	}
	name := state.PeerCertificates[0].Subject.CommonName
	if slices.Contains(n, name) {
		return nil
	}
	return &nodeNameError{fmt.Sprintf("the certificate is of the node %q, and only %s may lead this host (--node-name): "+
		"give the node a certificate of that name (tombolo pki node --name %s), or this host another --node-name",
		safetext.Short(name), safetext.Short(strings.Join(n, ", ")), safetext.Short(n[0]))}
}

// also is what verifies a connection, and then the name of the node at its other end.
func (n Nodes) also(verify func(tls.ConnectionState) error) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		if err := verify(state); err != nil {
			return err
		}
		return n.check(state)
	}
}
