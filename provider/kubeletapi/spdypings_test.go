// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/moby/spdystream/spdy"
)

// frames returns what a client's framer writes.
func frames(t testing.TB, list ...spdy.Frame) []byte {
	t.Helper()
	var b bytes.Buffer
	framer, err := spdy.NewFramer(&b, &b)
	if err != nil {
		t.Fatal(err)
	}
	for _, frame := range list {
		if err := framer.WriteFrame(frame); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestPingsAreTakenOutOfAStream(t *testing.T) {
	open := &spdy.SynStreamFrame{StreamId: 1, Headers: map[string][]string{"streamtype": {"stdin"}}}
	// The numbers of these streams look like the type of a PING.
	data := func(text string) spdy.Frame { return &spdy.DataFrame{StreamId: 6, Data: []byte(text)} }
	ping := func(id uint32) spdy.Frame { return &spdy.PingFrame{Id: id} }
	all := frames(t, open, ping(1), data("abcd"), data(""), ping(3), ping(5), data("end"))
	rest := frames(t, open, data("abcd"), data(""), data("end"))
	pings := frames(t, ping(1), ping(3), ping(5))
	for size := 1; size <= len(all); size++ {
		var s spdyPings
		var got []byte
		for chunk := range bytes.Lines(all) {
			for len(chunk) > 0 {
				n := min(size, len(chunk))
				got = s.split(got, chunk[:n])
				chunk = chunk[n:]
			}
		}
		if held := s.take(); !bytes.Equal(got, rest) || !bytes.Equal(held, pings) {
			t.Fatalf("in chunks of %d: rest %q, want %q; pings %q, want %q", size, got, rest, held, pings)
		}
		if again := s.take(); len(again) != 0 {
			t.Fatalf("taken twice: %q", again)
		}
	}
}

// A streaming server that reads GOAWAY does not see the connection end, and the client's command goes on.
func TestGoAwayIsNotPassedOn(t *testing.T) {
	data := func(text string) spdy.Frame { return &spdy.DataFrame{StreamId: 7, Data: []byte(text)} }
	goAway := &spdy.GoAwayFrame{LastGoodStreamId: 7}
	all := frames(t, data("abcd"), goAway, &spdy.PingFrame{Id: 1}, data("end"), goAway)
	rest := frames(t, data("abcd"), data("end"))
	for size := 1; size <= len(all); size++ {
		var s spdyPings
		var got []byte
		for chunk := range slices.Chunk(all, size) {
			got = s.split(got, chunk)
		}
		if !bytes.Equal(got, rest) || !bytes.Equal(s.take(), frames(t, &spdy.PingFrame{Id: 1})) {
			t.Fatalf("in chunks of %d: rest %q, want %q", size, got, rest)
		}
		if !s.betweenFrames() {
			t.Fatalf("in chunks of %d: a frame is under way after the last", size)
		}
	}
}

func TestPingsGoBackInOnlyBetweenFrames(t *testing.T) {
	data := func(text string) spdy.Frame { return &spdy.DataFrame{StreamId: 1, Data: []byte(text)} }
	ping := &spdy.PingFrame{Id: 1}
	first, second := frames(t, data("a long frame")), frames(t, data("next"))
	all := slices.Concat(frames(t, ping), first, second)
	pingBytes := len(all) - len(first) - len(second)
	for at := range len(all) {
		var s spdyPings
		got := s.split(nil, all[:at])
		switch inFirst := at - pingBytes; {
		case s.betweenFrames():
			got = append(got, s.take()...)
		case inFirst < 8:
			t.Fatalf("after %d bytes nothing of the first frame was returned, and yet it is under way", at)
		default:
			s.release = true
		}
		got = s.split(got, all[at:])
		got = append(got, s.take()...)
		checkFrames(t, got, 3)
	}
}

// checkFrames fails unless b is so many frames that a reader understands.
func checkFrames(t *testing.T, b []byte, want int) {
	t.Helper()
	framer, err := spdy.NewFramer(io.Discard, bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for n := range want {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatalf("frame %d of %q: %v", n, b, err)
		}
		if d, ok := frame.(*spdy.DataFrame); ok && string(d.Data) != "a long frame" && string(d.Data) != "next" {
			t.Fatalf("a frame of %q carries %q", b, d.Data)
		}
	}
	if _, err := framer.ReadFrame(); err == nil {
		t.Fatalf("more than %d frames in %q", want, b)
	}
}

func TestAFloodOfPingsIsNotKept(t *testing.T) {
	const flood = 1000
	one := frames(t, &spdy.PingFrame{Id: 1})
	var s spdyPings
	rest := s.split(nil, bytes.Repeat(one, flood))
	if len(s.held) > maxHeldPings || len(rest)+len(s.held) != flood*len(one) {
		t.Errorf("%d bytes are held and %d were passed on", len(s.held), len(rest))
	}
}

func FuzzSPDYPings(f *testing.F) {
	f.Add(frames(f, &spdy.PingFrame{Id: 1}, &spdy.DataFrame{StreamId: 1, Data: []byte("x")}), uint8(3))
	f.Add([]byte("\x80\x03\x00\x06\x00\x00\x00\x05hello"), uint8(1))
	f.Add(frames(f, &spdy.GoAwayFrame{}, &spdy.DataFrame{StreamId: 1, Data: []byte("x")}, &spdy.GoAwayFrame{}), uint8(3))
	f.Add(frames(f, &spdy.GoAwayFrame{})[:11], uint8(3))
	f.Fuzz(func(t *testing.T, all []byte, size uint8) {
		var whole, parts spdyPings
		rest := whole.split(nil, all)
		var eager spdyPings
		var got, asking []byte
		for left := all; len(left) > 0; {
			n := min(max(1, int(size)), len(left))
			got = parts.split(got, left[:n])
			asking = eager.split(asking, left[:n])
			if eager.release = !eager.betweenFrames(); !eager.release {
				asking = append(asking, eager.take()...)
			}
			left = left[n:]
		}
		// However often the pings are asked for, the other frames stay whole.
		var again spdyPings
		if other := again.split(nil, asking); !bytes.Equal(other, rest) && len(whole.held) < maxHeldPings {
			t.Fatalf("asking for pings spoilt the rest: %q, want %q", other, rest)
		}
		if !bytes.Equal(rest, got) || !bytes.Equal(whole.held, parts.held) {
			t.Fatalf("the chunks of %d matter: %q and %q", size, rest, got)
		}
		const wholeGoAway = spdyHeaderBytes + spdyGoAwayBody
		dropped := len(all) - len(rest) - len(whole.held) - len(whole.start)
		if whole.goAway && whole.body > 0 {
			dropped -= wholeGoAway - int(whole.body)
		}
		if dropped < 0 || dropped%wholeGoAway != 0 {
			t.Fatalf("of %d bytes %d were dropped", len(all), dropped)
		}
		if len(whole.held)%(spdyHeaderBytes+spdyPingBody) != 0 {
			t.Fatalf("a part of a ping is held: %q", whole.held)
		}
	})
}
