// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tombolo-dev/tombolo/host/hostpb"
	"github.com/tombolo-dev/tombolo/link/calmlog"
)

// The protocol is the meaning of HostService's messages, and of the runtime's as this package forwards them. Its number grows when an end
// that does not know of a change would do something wrong; a field or a method that may be missing is no such change. Ends that speak a
// common number work together, all others refuse each other.
const (
	oldestProtocol = 1
	newestProtocol = 1
	// silentProtocol is what an end speaks that does not tell, because it is older than the telling.
	silentProtocol = 1
)

// protocolHeader is where a node says in each call what it speaks, such as "1-2 v1.2.3".
const protocolHeader = "tombolo-protocol"

// maxVersion bounds a version, in bytes.
const maxVersion = 100

// tongue is what one end speaks.
type tongue struct {
	version        string
	oldest, newest uint32
}

// native is what this program speaks.
func native(version string) tongue {
	return tongue{version: version, oldest: oldestProtocol, newest: newestProtocol}
}

// silent is what an end speaks that does not tell.
func silent(version string) tongue {
	return tongue{version: version, oldest: silentProtocol, newest: silentProtocol}
}

// String is for people.
func (t tongue) String() string {
	version := t.version
	if version == "" {
		version = "of an earlier version"
	}
	if t.oldest == t.newest {
		return fmt.Sprintf("tombolo %s with protocol %d", version, t.newest)
	}
	return fmt.Sprintf("tombolo %s with protocols %d to %d", version, t.oldest, t.newest)
}

// header is what parseTongue reads.
func (t tongue) header() string {
	return fmt.Sprintf("%d-%d %s", t.oldest, t.newest, printable(t.version))
}

// parseTongue reads a header. One that cannot be read tells of no protocol that is known here.
func parseTongue(header string) tongue {
	spoken, version, _ := strings.Cut(header, " ")
	first, last, _ := strings.Cut(spoken, "-")
	t := tongue{version: printable(version)}
	oldest, errOldest := strconv.ParseUint(first, 10, 32)
	newest, errNewest := strconv.ParseUint(last, 10, 32)
	if errOldest == nil && errNewest == nil {
		t.oldest, t.newest = uint32(oldest), uint32(newest)
	}
	return t
}

// printable makes a version fit for headers and for people, whoever wrote it.
func printable(version string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, version[:min(len(version), maxVersion)])
}

// SkewError is that the versions of both ends are too far apart. Its text names both, which of them is too old, and the remedy.
type SkewError struct {
	Reason, Remedy string
}

// Error is the reason and the remedy.
func (e *SkewError) Error() string { return e.Reason + "; " + e.Remedy }

// skew is nil if node and host understand each other.
func skew(node, host tongue) *SkewError {
	switch {
	case node.newest < host.oldest:
		return tooOld("node", node, host, "replace the program of the node by tombolo "+host.version)
	case host.newest < node.oldest:
		return tooOld("host", node, host, "replace tombolo host by tombolo "+node.version)
	}
	return nil
}

func tooOld(which string, node, host tongue, remedy string) *SkewError {
	return &SkewError{
		Reason: fmt.Sprintf("the node is %s, the host is %s: they do not understand each other, the %s is too old", node, host, which),
		Remedy: remedy + " or one close to it",
	}
}

// porter keeps nodes out that this host does not understand. What they would do with it is not known.
type porter struct {
	own tongue
	log *calmlog.Log

	mu      sync.Mutex
	refused string // the last refusal, which was told of
}

// allow says whether a caller may have its call. Refused is like not reached: it says nothing of pods. Hello is for everybody, and tells
// what is spoken here.
func (p *porter) allow(ctx context.Context, method string) error {
	if method == hostpb.HostService_Hello_FullMethodName {
		return nil
	}
	node := silent("")
	if told := metadata.ValueFromIncomingContext(ctx, protocolHeader); len(told) > 0 {
		node = parseTongue(told[0])
	}
	why := skew(node, p.own)
	if why == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := why.Error(); p.refused != text {
		p.refused = text
		p.log.Warn("a node is refused", "from", address(ctx), "reason", text)
	}
	return status.Error(codes.Unavailable, why.Error())
}
