// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/safetext"
)

// endTimeout is how long the exit status may come after the end of the program's output.
const endTimeout = 2 * time.Second

// conn is the standard input and output of the program on the host. A deadline that passes ends it: what is under way on an
// SSH channel cannot be taken back.
type conn struct {
	attempt *attempt
	session *ssh.Session
	input   io.WriteCloser
	output  *bufio.Reader
	log     *hostLog
	// waited is the goroutine that waits for the program's end.
	waited sync.WaitGroup
	done   chan struct{} // closed at its end
	end    error         // the reason, valid after that

	mu      sync.Mutex
	read    clock.Timer
	write   clock.Timer
	expired bool
	closed  bool
	heard   bool
}

var _ net.Conn = (*conn)(nil)

// start runs the program. Without a connection and an error, missing says why it has to be put on the host first.
func (a *attempt) start(ctx context.Context, program *binary, where place) (_ net.Conn, missing string, err error) {
	session, err := a.session(ctx)
	if err != nil {
		return nil, "", err
	}
	c := &conn{attempt: a, session: session, log: newHostLog(a.d.says), done: make(chan struct{})}
	session.Stderr = c.log
	if c.input, err = session.StdinPipe(); err != nil {
		return nil, "", err
	}
	output, err := session.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	c.output = bufio.NewReader(output)
	words := append([]string{program.file(where)}, a.d.o.Args...)
	if a.d.o.Sudo {
		words = append([]string{"sudo", "-n", "--"}, words...)
	}
	var said greeting
	err = a.within(ctx, a.d.limits.start, "starting the program on the host", func(context.Context) error {
		if err := session.Start(shell(startScript, append([]string{where.cache, program.sum}, words...)...)); err != nil {
			return explainSession(err)
		}
		if said, err = readGreeting(c.output); errors.Is(err, io.EOF) {
			return explainStart(session.Wait(), c.log.last()+"\n"+said.noise, a.d.o)
		}
		return err
	})
	switch {
	case errors.Is(err, errNoAnswer) && c.log.waitingFor() != "":
		return nil, "", fmt.Errorf("%w; the host said last: %s", err, c.log.waitingFor())
	case err != nil:
		return nil, "", err
	case said.answer.word == "unsafe":
		return nil, "", unsafe(said.answer.rest)
	case said.answer.word != "":
		_ = session.Close() // it has ended by itself
		return nil, said.answer.word, nil
	case Greeting(said.version) != Greeting(a.d.o.Version):
		return nil, "", fmt.Errorf("the program for the host is tombolo %s and this is %s: put the same version into --host-ssh-binary-dir", printable(said.version), a.d.o.Version)
	}
	c.waited.Go(func() {
		c.end = session.Wait()
		close(c.done)
	})
	// The program serves; if it says nothing now, something swallows what it writes.
	c.arm(&c.read, a.d.o.Clock.Now().Add(a.d.limits.step))
	return c, "", nil
}

// greeting is what comes before the connection proper.
type greeting struct {
	version string
	answer  answer // of the script instead, if its word is not empty
	noise   string // what else was written
}

// readGreeting reads up to the greeting. An EOF comes with what was read until then.
func readGreeting(r *bufio.Reader) (g greeting, err error) {
	for read := 0; read < maxAnswer; {
		line, err := r.ReadSlice('\n')
		read += len(line)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			g.noise += string(line)
			return g, err
		}
		text := strings.TrimRight(string(line), "\r\n")
		if version, ok := strings.CutPrefix(text, greetingPrefix); ok {
			g.version = version
			return g, nil
		}
		if a, ok := parseAnswer(text); ok && a.word != "" {
			g.answer = a
			return g, nil
		}
		if text != "" {
			g.noise += text + "\n"
		}
	}
	return g, fmt.Errorf("the host writes something else than the program would, beginning with %q: is something printed by the login shell's start files?", g.noise[:min(len(g.noise), 200)])
}

// Read reads what the program writes.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.output.Read(p)
	if n > 0 {
		c.hear()
	}
	if err != nil {
		err = c.why(err)
	}
	return n, err
}

// hear lifts the deadline for the first bytes.
func (c *conn) hear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.heard {
		c.heard = true
		stopTimer(&c.read)
	}
}

// Write writes to the program.
func (c *conn) Write(p []byte) (int, error) {
	n, err := c.input.Write(p)
	if err != nil {
		err = c.why(err)
	}
	return n, err
}

// why says what an error of the channel comes from.
func (c *conn) why(err error) error {
	timer := c.attempt.d.o.Clock.NewTimer(endTimeout)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.expired:
		return os.ErrDeadlineExceeded
	case c.closed:
		return net.ErrClosed
	}
	select {
	case <-c.done:
	default:
		return err
	}
	if missing := (*ssh.ExitMissingError)(nil); errors.As(c.end, &missing) {
		// The program did not end, as far as we know: the way to it did.
		return fmt.Errorf("the SSH connection ended: %w", errors.Join(safetext.ShortError(c.attempt.host().Wait()), io.ErrUnexpectedEOF))
	}
	return explainEnd(c.end, c.log.last(), c.attempt.d.o)
}

// Close ends the connection and with it the program, and waits for what this side has going.
func (c *conn) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	stopTimer(&c.read)
	stopTimer(&c.write)
	c.mu.Unlock()
	if first {
		c.attempt.abort()
	}
	c.waited.Wait()
	_ = c.attempt.ended()
	return nil
}

// LocalAddr is the address of this side's end of the first connection.
func (c *conn) LocalAddr() net.Addr { return c.attempt.clients[0].LocalAddr() }

// RemoteAddr is the host.
func (c *conn) RemoteAddr() net.Addr { return peer(c.attempt.d.o.Address.HostPort()) }

// SetDeadline sets both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline sets when the connection ends if the deadline is not moved before.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.arm(&c.read, t)
	return nil
}

// SetWriteDeadline is the same for writes.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.arm(&c.write, t)
	return nil
}

func (c *conn) arm(timer *clock.Timer, t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	stopTimer(timer)
	if t.IsZero() || c.closed {
		return
	}
	clk := c.attempt.d.o.Clock
	*timer = clk.AfterFunc(max(0, t.Sub(clk.Now())), func() {
		c.mu.Lock()
		c.expired = true
		c.mu.Unlock()
		c.attempt.abort()
	})
}

func stopTimer(timer *clock.Timer) {
	if *timer != nil {
		(*timer).Stop()
		*timer = nil
	}
}
