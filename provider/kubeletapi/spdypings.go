// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import "encoding/binary"

const (
	spdyHeaderBytes = 8
	// spdyPing is the type of a PING control frame in SPDY/3; spdyPingBody is the length of its body, a number.
	spdyPing     = 6
	spdyPingBody = 4
	// spdyGoAway is the type of a GOAWAY control frame; spdyGoAwayBody is the length of its body, a stream and a reason.
	spdyGoAway     = 7
	spdyGoAwayBody = 8
	// maxHeldPings bounds the memory a client can fill with pings.
	maxHeldPings = 64 * (spdyHeaderBytes + spdyPingBody)
)

// spdyPings takes the PING frames out of what a SPDY client sends, and drops GOAWAY frames. It is for one goroutine at a
// time.
//
// A client says GOAWAY right before it closes its connection, which is passed on as well. The runtime's streaming server
// reads no further than that frame, never sees the connection end, and leaves the client's command running for nobody.
type spdyPings struct {
	// start holds what is known of a header that is not complete, or of a PING that is not.
	start []byte
	// body is how much of the present frame is still to come after its header; 0 between frames.
	body   uint32
	ping   bool
	goAway bool
	// held are the frames that were taken out.
	held []byte
	// release says that they shall go back in as soon as the frame that is under way has ended.
	release bool
}

// split appends to rest what of chunk belongs to neither a PING nor a GOAWAY, and keeps the PINGs. The bytes of a header that is not
// complete are kept until it is.
func (s *spdyPings) split(rest, chunk []byte) []byte {
	for len(chunk) > 0 {
		if s.body == 0 {
			n := min(len(chunk), spdyHeaderBytes-len(s.start))
			s.start = append(s.start, chunk[:n]...)
			chunk = chunk[n:]
			if len(s.start) == spdyHeaderBytes {
				rest = s.begin(rest)
			}
			continue
		}
		n := min(len(chunk), int(s.body))
		switch {
		case s.ping:
			s.start = append(s.start, chunk[:n]...)
		case !s.goAway:
			rest = append(rest, chunk[:n]...)
		}
		chunk = chunk[n:]
		s.body -= uint32(n) //nolint:gosec // n is no more than body
		if s.body == 0 {
			rest = s.end(rest)
		}
	}
	return rest
}

// end is called when a frame with a body is complete.
func (s *spdyPings) end(rest []byte) []byte {
	if s.ping {
		s.held = append(s.held, s.start...)
		s.start = s.start[:0]
	}
	if s.release {
		rest = append(rest, s.take()...)
	}
	return rest
}

// begin reads a complete header: a bit that says control frame, 15 bits of version and 16 of type (or else the number of
// a stream), 8 bits of flags and 24 of length.
func (s *spdyPings) begin(rest []byte) []byte {
	s.body = binary.BigEndian.Uint32(s.start[4:]) & 0xffffff
	control, kind := s.start[0]&0x80 != 0, binary.BigEndian.Uint16(s.start[2:])
	s.ping = control && kind == spdyPing && s.body == spdyPingBody && len(s.held) < maxHeldPings
	s.goAway = control && kind == spdyGoAway && s.body == spdyGoAwayBody
	if s.ping {
		return rest
	}
	if !s.goAway {
		rest = append(rest, s.start...)
	}
	s.start = s.start[:0]
	return rest
}

// betweenFrames says that what was passed on ends with the end of a frame.
func (s *spdyPings) betweenFrames() bool { return s.body == 0 || s.ping || s.goAway }

// take returns the frames that were taken out so far.
func (s *spdyPings) take() []byte {
	held := s.held
	s.held, s.release = nil, false
	return held
}
