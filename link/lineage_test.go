// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"testing"
	"time"
)

func TestHostWithARenewedCertificateTakesOverFromItsHalfDeadConnection(t *testing.T) {
	h := newHaven(t, time.Hour)
	files, kept := joinAt(t, h.address(), h.token(t))
	before := newBoat(t, h.address(), files)
	carries(t, dialled(t, h.Link), before.next(t))
	former, err := kept.Leaf()
	if err != nil {
		t.Fatal(err)
	}
	id, err := before.o.Certificates.Renew(t.Context(), h.address(), nil, "edge-1")
	if err != nil {
		t.Fatal(err)
	}
	if err := kept.Renew(t.Context(), id, former); err != nil {
		t.Fatal(err)
	}
	after := newBoat(t, h.address(), files) // the node does not know yet that the former one is gone
	carries(t, dialled(t, h.Link), after.next(t))
	if got := h.refusals(t); len(got) > 0 {
		t.Errorf("refused %v", got)
	}
	// Another machine that joined is another one still.
	files, _ = joinAt(t, h.address(), h.token(t))
	newBoat(t, h.address(), files).log.await(t, "another host has this name")
}
