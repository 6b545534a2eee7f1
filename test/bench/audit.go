// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// auditPolicy has the API server note each request of a node that changes something, once, when it has been answered.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules:
- level: Metadata
  userGroups: ["system:nodes"]
  verbs: [create, update, patch, delete]
- level: None
`

// auditLog is the API server's list of what nodes changed.
type auditLog struct{ policy, file string }

// newAuditLog writes the policy into a folder, in which the list will be.
func newAuditLog(dir string) (*auditLog, error) {
	a := &auditLog{policy: filepath.Join(dir, "audit-policy.yaml"), file: filepath.Join(dir, "audit.log")}
	return a, os.WriteFile(a.policy, []byte(auditPolicy), 0o644)
}

// flags are those of the API server.
func (a *auditLog) flags() []string {
	return []string{"--audit-policy-file=" + a.policy, "--audit-log-path=" + a.file, "--audit-log-mode=blocking"}
}

// writes counts the requests of a user so far. Leases and the node object are left out: they are the node's, not its pods'.
func (a *auditLog) writes(user string) (others, events int, err error) {
	f, err := os.Open(a.file)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the audit log: %w", err)
	}
	defer f.Close()
	return countWrites(f, user)
}

func countWrites(r io.Reader, user string) (others, events int, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var entry struct {
			User      struct{ Username string }
			ObjectRef struct{ Resource string }
		}
		if err := json.Unmarshal(lines.Bytes(), &entry); err != nil {
			return 0, 0, fmt.Errorf("reading the audit log: %w", err)
		}
		if entry.User.Username != user {
			continue
		}
		switch entry.ObjectRef.Resource {
		case "pods":
			others++
		case "events":
			events++
		}
	}
	return others, events, lines.Err()
}
