// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"regexp"
	"strings"
)

// KubernetesVersion is the Kubernetes release whose kubelet this node behaves like: the one of the API types it is
// built with.
const KubernetesVersion = "v1.37.2"

var notAllowed = regexp.MustCompile(`[^0-9A-Za-z.-]+`)

// KubeletVersion is what the node gives as its kubelet's version: the Kubernetes release, and the version of this
// program as the semantic version's pre-release part, so that tools which compare versions can read it.
func KubeletVersion(version string) string {
	var parts []string
	for part := range strings.SplitSeq(notAllowed.ReplaceAllString(version, "-"), ".") {
		switch {
		case part == "":
		case len(part) > 1 && part[0] == '0' && strings.Trim(part, "0123456789") == "":
			parts = append(parts, "g"+part) // a number may not begin with 0; such a one is an abbreviated commit
		default:
			parts = append(parts, part)
		}
	}
	return strings.Join(append([]string{KubernetesVersion + "-tombolo"}, parts...), ".")
}
