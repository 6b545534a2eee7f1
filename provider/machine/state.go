// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// State is everything known of the machine at one moment. What was once answered stays until the next answer.
type State struct {
	// Target is the host's address as the user gave it.
	Target string
	// Facts, Version and Runtime are the last answers, nil before the first.
	Facts   *host.Facts
	Version *runtimeapi.VersionResponse
	Runtime *runtimeapi.StatusResponse
	// Images are those of the runtime. They are read less often than the rest.
	Images []*runtimeapi.Image
	// ClockOffset is how far the host's wall clock is ahead of ours.
	ClockOffset time.Duration

	// Link is set while the host does not answer, RuntimeDown while the host answers but its container runtime does not.
	Link        *Outage
	RuntimeDown *Outage
	// LastError is how the newest poll failed, nil if it did not. It is for people who wait; a single failure is no outage.
	LastError error
}

// Known says that the machine has told all that a Node object is made of.
func (s *State) Known() bool {
	return s.Facts != nil && s.Version != nil && s.Runtime != nil
}

// LinkError is nil unless the link is down. Its text is that of the node's condition.
func (s *State) LinkError() error {
	if s.Link == nil {
		return nil
	}
	return unavailable(fmt.Errorf("link to host %s is down since %s: %w",
		s.Target, s.Link.Since.UTC().Format(time.RFC3339), s.Link.Err))
}

// RuntimeError is nil when the runtime last said that it is ready. The texts are the kubelet's.
func (s *State) RuntimeError() error {
	switch {
	case s.RuntimeDown != nil:
		return unavailable(fmt.Errorf("container runtime is down: %w", s.RuntimeDown.Err))
	case s.Runtime == nil:
		return errors.New("container runtime status check may not have completed yet")
	default:
		return s.condition("container runtime not ready", runtimeapi.RuntimeReady)
	}
}

// NetworkError is nil when the runtime last said that pod networks can be made. The text is the kubelet's.
func (s *State) NetworkError() error {
	if s.Runtime == nil {
		return errors.New("container runtime status check may not have completed yet")
	}
	return s.condition("container runtime network not ready", runtimeapi.NetworkReady)
}

// condition turns a runtime condition that does not hold into an error.
func (s *State) condition(what, kind string) error {
	for _, c := range s.Runtime.GetStatus().GetConditions() {
		if c.GetType() != kind {
			continue
		}
		if c.GetStatus() {
			return nil
		}
		return fmt.Errorf("%s: %s=false reason:%s message:%s", what, kind, c.GetReason(), c.GetMessage())
	}
	return fmt.Errorf("%s: %s=false reason:NotReported message:the runtime does not report this condition", what, kind)
}

// HostIPs are the addresses of the host for pods' status.hostIPs: the host's first address, and its first one of the
// other family if it has any.
func (s *State) HostIPs() []string {
	if s.Facts == nil {
		return nil
	}
	var out []string
	families := map[bool]bool{}
	for _, text := range s.Facts.Addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		if addr = addr.Unmap(); !families[addr.Is4()] {
			families[addr.Is4()] = true
			out = append(out, addr.String())
		}
	}
	return out
}

// unavailable gives an error the class of an absent machine and keeps its text: whatever goes wrong on the way to the
// host says nothing of a pod.
func unavailable(err error) error {
	if errdefs.IsUnavailable(err) {
		return err
	}
	return absent{err}
}

// absent is an error of the class Unavailable with the text of another one.
type absent struct{ error }

// Unwrap returns the class and the error with the text.
func (a absent) Unwrap() []error { return []error{errdefs.ErrUnavailable, a.error} }
