// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
)

// repeatedErrorInterval is how often the same error of a link is logged.
const repeatedErrorInterval = time.Minute

// State is how a link is doing.
type State struct {
	// Up says that the other end has spoken on the newest connection, which has not ended since. A handshake alone is not
	// enough: with TLS 1.3 the other end may refuse our certificate after it.
	Up bool
	// Since is when Up last changed, or when the link was made.
	Since time.Time
	// Err is why the link is down, nil while it is up or was never tried.
	Err error
	// Waiting says that Err is only what a connection that is being made waits for.
	Waiting bool
}

// tracker keeps the state of a link and logs its changes.
type tracker struct {
	target string
	trying string // what is being done for a connection, such as dialing the target
	clock  clock.PassiveClock
	logger *slog.Logger
	losses prometheus.Counter

	mu       sync.Mutex
	state    State
	current  *conn // the connection that the state speaks of while up
	loggedAt time.Time
	logged   string
	closed   bool
}

func newTracker(target string, clk clock.PassiveClock, logger *slog.Logger) *tracker {
	return &tracker{
		target: target, trying: "dialing " + target, clock: clk, logger: logger, losses: newLosses(), state: State{Since: clk.Now()},
	}
}

func (t *tracker) get() State {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}

// close ends the reports: what becomes of connections from now on is the doing of this side.
func (t *tracker) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// connected records that the other end spoke on c.
func (t *tracker) connected(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.current = c
	t.logged = ""
	if t.state.Up {
		return
	}
	t.state = State{Up: true, Since: t.clock.Now()}
	t.logger.Info("link is up", "target", t.target)
}

// failed records that a connection could not be made, or was refused before the other end spoke.
func (t *tracker) failed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.state.Up {
		return // when up, another connection is in use; this one was of no consequence
	}
	t.state.Err, t.state.Waiting = err, false
	if t.due(err) {
		t.logger.Warn("link cannot be made", "target", t.target, "error", err)
	}
}

// note records what a connection that is being made is waiting for, unless something more telling is known.
func (t *tracker) note(waiting error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed && !t.state.Up && (t.state.Err == nil || t.state.Waiting) {
		t.state.Waiting = true
		t.state.Err = fmt.Errorf("%s: %w", t.trying, waiting)
	}
}

// refused records why a peer was turned away that wanted to be the other end. It was logged already.
func (t *tracker) refused(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed && !t.state.Up {
		t.state.Err, t.state.Waiting = fmt.Errorf("%s: %w", t.trying, err), false
	}
}

// lost records that c ended after the other end had spoken on it.
func (t *tracker) lost(c *conn, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.current != c {
		return
	}
	t.current = nil
	t.losses.Inc()
	t.state = State{Since: t.clock.Now(), Err: fmt.Errorf("connection to %s lost: %w", t.target, err)}
	if t.due(t.state.Err) {
		t.logger.Warn("link is down", "target", t.target, "error", err)
	}
}

// numbers are what differs between errors that say the same: ephemeral ports and times.
var numbers = regexp.MustCompile(`[0-9]+`)

// due says whether an error is worth a line: it says something else than the last one, or a minute has passed.
func (t *tracker) due(err error) bool {
	now, text := t.clock.Now(), numbers.ReplaceAllString(err.Error(), "0")
	if text == t.logged && now.Sub(t.loggedAt) < repeatedErrorInterval {
		return false
	}
	t.logged, t.loggedAt = text, now
	return true
}
