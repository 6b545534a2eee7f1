// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import "time"

// Status is how a check came out.
type Status string

// How a check comes out.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Failed  Status = "failed"
	// Skipped could not be looked at, because of another failure or because nothing was given to look with.
	Skipped Status = "skipped"
)

// The checks.
const (
	checkLink         = "link"
	checkVersions     = "versions"
	checkClock        = "clock"
	checkRuntime      = "runtime"
	checkImages       = "images"
	checkNetwork      = "network"
	checkCgroups      = "cgroups"
	checkDisk         = "disk"
	checkCertificates = "certificates"
	checkAPI          = "api"
	checkRights       = "rights"
)

// Finding is what one check found. Its form in JSON is stable: fields and checks are added, never changed.
type Finding struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	// Remedy is what to do, if there is something to do.
	Remedy string `json:"remedy,omitempty"`
}

// Report is all findings. Its form in JSON is stable.
type Report struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Target     string    `json:"target"`
	Node       string    `json:"node,omitempty"`
	Time       time.Time `json:"time"`
	Findings   []Finding `json:"findings"`
	Summary    Summary   `json:"summary"`
}

// Summary counts findings by their status.
type Summary struct {
	OK      int `json:"ok"`
	Warning int `json:"warning"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// NewReport judges what was observed.
func NewReport(o *Observed) *Report {
	r := &Report{
		APIVersion: "tombolo.dev/v1alpha1", Kind: "CheckReport",
		Target: o.Target.String(), Node: o.Node, Time: o.Now.UTC(), Findings: Judge(o),
	}
	for _, f := range r.Findings {
		switch f.Status {
		case OK:
			r.Summary.OK++
		case Warning:
			r.Summary.Warning++
		case Failed:
			r.Summary.Failed++
		case Skipped:
			r.Summary.Skipped++
		}
	}
	return r
}

func ok(check, message string) Finding { return Finding{Check: check, Status: OK, Message: message} }

func warning(check, message, remedy string) Finding {
	return Finding{Check: check, Status: Warning, Message: message, Remedy: remedy}
}

func failed(check, message, remedy string) Finding {
	return Finding{Check: check, Status: Failed, Message: message, Remedy: remedy}
}

func skipped(check, why string) Finding { return Finding{Check: check, Status: Skipped, Message: why} }
