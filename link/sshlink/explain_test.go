// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"bufio"
	bigendian "encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// disconnecting is a server that ends each connection with a message before anything is secured.
func disconnecting(t *testing.T, message string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	payload := ssh.Marshal(struct {
		Reason            uint32 `sshtype:"1"`
		Message, Language string
	}{2, message, ""})
	const padding = 8
	packet := bigendian.BigEndian.AppendUint32(nil, uint32(1+len(payload)+padding))
	packet = append(append(append(packet, padding), payload...), make([]byte, padding)...)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "SSH-2.0-talker\r\n")
			reader := bufio.NewReader(conn)
			_, _ = reader.ReadString('\n')
			_, _ = conn.Write(packet)
			_, _ = io.Copy(io.Discard, reader)
			_ = conn.Close()
		}
	})
	t.Cleanup(func() { _ = listener.Close(); wg.Wait() })
	return listener.Addr().String()
}

func TestWhatAServerSaysAtLengthLeavesRoomForWhatToDo(t *testing.T) {
	m := newMachine(t)
	for name, tc := range map[string]struct {
		message string
		want    string
	}{
		"that it is too much":  {"Too many authentication failures\n" + strings.Repeat("x", 200<<10), "authorized_keys"},
		"something of its own": {strings.Repeat("x\x1b[2J\n", 40<<10), "logging in as edge@"},
	} {
		t.Run(name, func(t *testing.T) {
			o := m.options(serving)
			address, err := ParseAddress("edge@" + disconnecting(t, tc.message))
			if err != nil {
				t.Fatal(err)
			}
			o.Address = address
			d, _ := newDialer(t, o)
			if err := refused(t, d, tc.want); len(err.Error()) > 3<<10 || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("%d bytes: %.2000q", len(err.Error()), err)
			}
		})
	}
	long := errors.New(strings.Repeat("x", 200<<10))
	for what, err := range map[string]error{
		"session": explainSession(long), "jump": explainJump(long, Address{}, Address{}),
		"jump that forbids": explainJump(&ssh.OpenChannelError{Reason: ssh.Prohibited, Message: strings.Repeat("x", 200<<10)}, Address{}, Address{}),
	} {
		if len(err.Error()) > 1000 {
			t.Errorf("%s: %d bytes", what, len(err.Error()))
		}
	}
}
