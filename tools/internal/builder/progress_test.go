// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

func TestProgressCountsCompiledPackages(t *testing.T) {
	p := newProgress(io.Discard, "[1/2] etcd", time.Now())
	defer p.stop()
	if got := p.line(); strings.Contains(got, "packages") {
		t.Errorf("before the first package: %q", got)
	}
	for _, piece := range []string{"internal/a", "bi\n", "go: downloading example.com/x v1.0.0\nnet", "/http\nunfini"} {
		fmt.Fprint(p, piece)
	}
	if got, want := p.line(), ", 2 packages compiled, the last was net/http"; !strings.HasPrefix(got, "[1/2] etcd: ") || !strings.HasSuffix(got, want) {
		t.Errorf("line %q, want it to end in %q", got, want)
	}
}
