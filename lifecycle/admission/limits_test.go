// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of docs/limits.md")

const (
	limitsFile  = "../../docs/limits.md"
	beginMarker = "<!-- BEGIN GENERATED: fields of a pod. Change lifecycle/admission/rules.go and run: go test ./lifecycle/admission -update -->"
	endMarker   = "<!-- END GENERATED: fields of a pod -->"
)

// TestLimitsDocumentIsCurrent keeps the tables of docs/limits.md equal to the rules. Text outside the markers is free.
func TestLimitsDocumentIsCurrent(t *testing.T) {
	content, err := os.ReadFile(limitsFile)
	if errors.Is(err, fs.ErrNotExist) && *update {
		content, err = []byte("# Limits\n\n"+beginMarker+"\n"+endMarker+"\n"), nil
	}
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(content), beginMarker)
	is, after, ends := strings.Cut(rest, endMarker)
	if !begins || !ends {
		t.Fatalf("%s lacks the markers\n%s\n%s", limitsFile, beginMarker, endMarker)
	}
	want := "\n" + limitsTables() + "\n"
	if *update {
		if err := os.WriteFile(limitsFile, []byte(before+beginMarker+want+endMarker+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, is); diff != "" {
		t.Errorf("%s is not current; run go test ./lifecycle/admission -update (-want +got):\n%s", limitsFile, diff)
	}
}

func limitsTables() string {
	var b strings.Builder
	table := func(title, prefix string, lists ...[]rule) {
		fmt.Fprintf(&b, "\n### %s\n\n| field | what happens | remarks |\n|---|---|---|\n", title)
		for _, rules := range lists {
			for _, r := range rules {
				if r.verdict != inside {
					fmt.Fprintf(&b, "| `%s` | %s | %s |\n", strings.TrimPrefix(prefix+r.path, "spec."), what(r), r.note)
				}
			}
		}
	}
	table("Pod", "", podRules)
	table("Pod securityContext", "securityContext.", podSecurityRules)
	table("Volumes", "volumes[].", volumeRules)
	table("Containers, init containers and ephemeral containers", "", containerRules)
	table("Container securityContext", "securityContext.", containerSecurityRules)
	table("Annotations", "", annotationRules)
	return b.String()
}

func what(r rule) string {
	switch r.verdict {
	case supported:
		return "works"
	case elsewhere:
		return "not the node's business"
	case limited:
		return "refused unless `" + strings.Join(r.values, "` or `") + "`"
	default:
		return "refused"
	}
}
