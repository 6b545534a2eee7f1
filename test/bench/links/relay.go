// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// packet is how much a relay takes at once.
	packet = 4 << 10
	// socketBuffer keeps the kernel from being a larger router than the one that is meant.
	socketBuffer = 32 << 10
)

// shape is how a link is.
type shape struct {
	rate   float64       // bytes per second, 0 for as many as there are
	delay  time.Duration // one way
	buffer time.Duration // of the router, as time at the rate
}

// relay forwards connections to an address over a link of a shape, until ctx ends. It returns its own address.
func (s shape) relay(ctx context.Context, group *sync.WaitGroup, to string) (string, error) {
	small := func(_, _ string, raw syscall.RawConn) (err error) {
		return raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, socketBuffer)
		})
	}
	listener, err := (&net.ListenConfig{Control: small}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	group.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := (&net.Dialer{Control: small}).DialContext(ctx, "tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			end := context.AfterFunc(ctx, func() { _ = errors.Join(in.Close(), out.Close()) })
			group.Go(func() { defer end(); s.forward(out, in) })
			group.Go(func() { s.forward(in, out) })
		}
	})
	return listener.Addr().String(), nil
}

// piece is what is on its way.
type piece struct {
	bytes []byte
	due   time.Time
}

// forward carries one direction.
func (s shape) forward(to, from net.Conn) {
	defer func() { _ = errors.Join(to.Close(), from.Close()) }()
	room := 1 << 20
	if s.rate > 0 {
		room = max(4*packet, int(s.rate*(s.delay+s.buffer).Seconds()))
	}
	way := make(chan piece, room/packet)
	var arriving sync.WaitGroup
	defer arriving.Wait()
	defer close(way)
	arriving.Go(func() {
		for p := range way {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.bytes); err != nil {
				_ = from.Close()
			}
		}
	})
	var left time.Time // when the last one had left the router
	for {
		p := piece{bytes: make([]byte, packet)}
		n, err := from.Read(p.bytes)
		if err != nil {
			return
		}
		p.bytes = p.bytes[:n]
		if now := time.Now(); left.Before(now) {
			left = now
		}
		if s.rate > 0 {
			left = left.Add(time.Duration(float64(n) / s.rate * float64(time.Second)))
		}
		p.due = left.Add(s.delay)
		way <- p
	}
}
