// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

// ProbeKind is one of the three kinds of probes.
type ProbeKind string

// The kinds of probes, named as in the kubelet's metrics.
const (
	StartupProbe   ProbeKind = "Startup"
	LivenessProbe  ProbeKind = "Liveness"
	ReadinessProbe ProbeKind = "Readiness"
)

// ProbeResult is what the tries of one probe add up to.
type ProbeResult int

// The results of a probe. Unknown is that of a container that has not been probed often enough yet.
const (
	ProbeUnknown ProbeResult = iota
	ProbeSucceeded
	ProbeFailed
)

// ProbeResults tells what the probes say of containers. It is asked with the id of the container, so that what one
// container did is never held against the next of its name. Nothing in it blocks.
type ProbeResults interface {
	ProbeResult(kind ProbeKind, containerID string) ProbeResult
}
