// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

// progressInterval is how often a long build says that it is alive.
const progressInterval = 15 * time.Second

// progress counts the lines written to it, one per compiled package, and reports the count at intervals.
type progress struct {
	out   io.Writer
	what  string
	begin time.Time

	mu       sync.Mutex
	packages int
	partial  []byte // an unfinished line
	last     string // the last whole line

	quit chan struct{}
	done chan struct{}
}

// newProgress starts reporting; the caller must call stop.
func newProgress(out io.Writer, what string, begin time.Time) *progress {
	p := &progress{out: out, what: what, begin: begin, quit: make(chan struct{}), done: make(chan struct{})}
	go p.report()
	return p
}

func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partial = append(p.partial, b...)
	for {
		line, rest, found := bytes.Cut(p.partial, []byte("\n"))
		if !found {
			return len(b), nil
		}
		p.partial = rest
		if bytes.HasPrefix(line, []byte("go: ")) { // a download
			continue
		}
		p.packages++
		p.last = string(line)
	}
}

func (p *progress) report() {
	defer close(p.done)
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-p.quit:
			return
		case <-ticker.C:
			fmt.Fprintln(p.out, p.line())
		}
	}
}

func (p *progress) line() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.packages == 0 { // all compiled earlier: it is linking
		return fmt.Sprintf("%s: %s", p.what, elapsed(p.begin))
	}
	return fmt.Sprintf("%s: %s, %d packages compiled, the last was %s", p.what, elapsed(p.begin), p.packages, p.last)
}

// stop ends the reports and waits for the last one.
func (p *progress) stop() {
	close(p.quit)
	<-p.done
}
