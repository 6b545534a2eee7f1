// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// attempt is one way to the host, from the first connection on. It becomes the transport of a connection.
type attempt struct {
	d       *Dialer
	clients []*ssh.Client // one for each server on the way, the host's last

	mu      sync.Mutex
	open    []io.Closer // what ends the attempt when it is closed
	aborted bool
}

// errNoAnswer is a step that took too long.
var errNoAnswer = errors.New("no answer")

func (a *attempt) run(ctx context.Context) (net.Conn, error) {
	if err := a.login(ctx); err != nil {
		return nil, err
	}
	where, err := a.look(ctx)
	if err != nil {
		return nil, err
	}
	program, err := a.d.o.Binaries.find(where)
	if err != nil {
		return nil, err
	}
	for range maxUploads + 1 {
		conn, missing, err := a.start(ctx, program, where)
		if err != nil || conn != nil {
			return conn, err
		}
		a.d.o.Logger.Info("the program is put on the host", "reason", missing, "file", program.file(where), "bytes", program.size)
		if err := a.upload(ctx, program, where); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%s was put on the host %d times and is still not there: does something remove or change it?", program.file(where), maxUploads+1)
}

// login opens connections and proves who we are to each server on the way.
func (a *attempt) login(ctx context.Context) error {
	hops := append(append([]Address(nil), a.d.o.Jumps...), a.d.o.Address)
	for i, hop := range hops {
		check, err := a.checker(hop, i == len(hops)-1)
		if err != nil {
			return err
		}
		var raw net.Conn
		err = a.within(ctx, a.d.limits.step, "connecting to "+hop.HostPort(), func(ctx context.Context) (err error) {
			raw, err = a.connect(ctx, hop)
			return err
		})
		if err != nil {
			return err
		}
		err = a.within(ctx, a.d.limits.step, "logging in as "+hop.String(), func(ctx context.Context) error {
			return a.authenticate(ctx, raw, hop, check)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checker returns what decides about the keys of a server.
func (a *attempt) checker(hop Address, target bool) (checker, error) {
	if target && len(a.d.pinned) > 0 {
		return pinnedChecker(a.d.pinned), nil
	}
	return knownChecker(a.d.o.HostKeys.KnownFiles, hop.HostPort())
}

// connect opens a connection to a server, through the one before it if there is one.
func (a *attempt) connect(ctx context.Context, hop Address) (raw net.Conn, err error) {
	if len(a.clients) == 0 {
		raw, err = a.d.dial(ctx, hop.HostPort())
	} else {
		raw, err = a.host().DialContext(ctx, "tcp", hop.HostPort())
		err = explainJump(err, a.d.o.Jumps[len(a.clients)-1], hop)
	}
	if err == nil {
		a.keep(raw)
	}
	return raw, err
}

func (a *attempt) authenticate(ctx context.Context, raw net.Conn, hop Address, check checker) error {
	identity, err := a.d.o.Identity.read(ctx)
	if err != nil {
		return err
	}
	defer identity.close()
	var refused error
	conn, channels, requests, err := ssh.NewClientConn(raw, hop.HostPort(), &ssh.ClientConfig{
		User: hop.User,
		Auth: []ssh.AuthMethod{ssh.PublicKeys(identity.signers...)},
		HostKeyCallback: func(address string, remote net.Addr, key ssh.PublicKey) error {
			refused = check.check(address, remote, key)
			return refused
		},
		HostKeyAlgorithms: check.algorithms,
	})
	switch {
	case refused != nil:
		a.d.refused.Inc()
		return refused
	case err != nil:
		return explainLogin(err, hop, identity)
	}
	a.clients = append(a.clients, ssh.NewClient(conn, channels, requests))
	return nil
}

// host is the client of the last server.
func (a *attempt) host() *ssh.Client { return a.clients[len(a.clients)-1] }

// within bounds a step: when ctx ends or the time is up, every connection is closed, which ends whatever the step waits for.
func (a *attempt) within(ctx context.Context, limit time.Duration, doing string, step func(context.Context) error) error {
	a.d.o.Note(fmt.Errorf("%s, which is not done yet", doing))
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(bounded, a.abort)
	err := step(bounded)
	if !stop() && err == nil {
		err = bounded.Err() // the connections are gone
	}
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	case errors.Is(bounded.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s: %w within %s", doing, errNoAnswer, limit)
	default:
		return fmt.Errorf("%s: %w", doing, err)
	}
}

// session opens a session on the host.
func (a *attempt) session(ctx context.Context) (session *ssh.Session, err error) {
	err = a.within(ctx, a.d.limits.step, "opening a session on the host", func(context.Context) error {
		if session, err = a.host().NewSession(); err != nil {
			return explainSession(err)
		}
		return nil
	})
	return session, err
}

// keep has something closed at the end of the attempt.
func (a *attempt) keep(c io.Closer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.aborted {
		_ = c.Close()
		return
	}
	a.open = append(a.open, c)
}

// abort closes every connection. The first one carries the others, and closing it never waits for its other end.
func (a *attempt) abort() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.aborted = true
	for _, c := range a.open {
		_ = c.Close()
	}
	a.open = nil
}

// ended returns, after abort, when the transports have ended, with the reason of the host's.
func (a *attempt) ended() error {
	var err error
	for _, client := range a.clients {
		err = client.Wait()
	}
	return err
}

// command is a command line for any login shell from words that are passed on as they are.
func command(words ...string) string {
	quoted := make([]string, 0, len(words))
	for _, word := range words {
		quoted = append(quoted, `'`+strings.ReplaceAll(word, `'`, `'\''`)+`'`)
	}
	return "exec " + strings.Join(quoted, " ")
}

// shell is a command line that runs a script, of one line and without quotes or exclamation marks, which some login shells
// treat in ways of their own.
func shell(script string, args ...string) string {
	return command(append([]string{"sh", "-c", strings.Join(strings.Fields(script), " "), "tombolo"}, args...)...)
}

// ask runs a script to its end and returns the lines of its output that are for us.
func (a *attempt) ask(ctx context.Context, script string, args ...string) ([]answer, error) {
	session, err := a.session(ctx)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	out, errs := &bounded{limit: maxAnswer}, &bounded{limit: maxAnswer}
	session.Stdout, session.Stderr = out, errs
	if err := session.Run(shell(script, args...)); err != nil {
		return nil, explainEnd(err, errs.text(), a.d.o)
	}
	return parseAnswers(out.data), nil
}
