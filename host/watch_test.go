// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import "testing"

func TestPodsDigestKnowsStatesAndIgnoresOrder(t *testing.T) {
	one := PodsDigest([]ObjectState{{"a", 0}, {"b", 1}})
	if other := PodsDigest([]ObjectState{{"b", 1}, {"a", 0}}); other != one {
		t.Errorf("digest depends on the order: %x and %x", one, other)
	}
	for name, objects := range map[string][]ObjectState{
		"state changed": {{"a", 0}, {"b", 2}},
		"one is gone":   {{"a", 0}},
		"one is new":    {{"a", 0}, {"b", 1}, {"c", 1}},
		"nothing":       nil,
	} {
		if PodsDigest(objects) == one {
			t.Errorf("%s: the digest stays the same", name)
		}
	}
}

func TestPodsDigestStaysTheSameAcrossVersions(t *testing.T) {
	if got, want := PodsDigest([]ObjectState{{"a", 0}, {"b", 1}}), uint64(0x126091f156f6706f); got != want {
		t.Errorf("digest is %#x, was %#x: nodes and hosts of different versions would relist for ever", got, want)
	}
}
