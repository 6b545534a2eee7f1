// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/calmlog"
)

// limits bound the steps on the way to the host.
type limits struct {
	// step is for what needs a few round trips: a login, a question.
	step time.Duration
	// start is how long the program may take to serve. It waits for its predecessor for a while.
	start time.Duration
	// stall is how long an upload may stand still.
	stall time.Duration
}

var usualLimits = limits{step: 30 * time.Second, start: time.Minute, stall: 15 * time.Second}

// ConnectTimeout bounds Dial as a whole. Each of its steps is bounded on its own and much closer; this leaves time for an upload
// over a slow line.
const ConnectTimeout = time.Hour

// DefaultCacheDir is where the program is kept on the host, below the home of who logs in.
const DefaultCacheDir = "~/.cache/tombolo"

// Options say where a Dialer leads and what it starts there.
type Options struct {
	// Address is the host, Jumps the jump hosts on the way to it, the first one first.
	Address Address
	Jumps   []Address

	HostKeys HostKeys
	Identity Identity

	// Binaries are the programs to put on hosts, CacheDir is where: an absolute path, or one that begins with ~/. It must belong
	// to who logs in, and nobody else may write there.
	Binaries *Binaries
	CacheDir string
	// Args are the arguments of the program, which begins by writing Greeting(Version) to its standard output.
	Args    []string
	Version string
	// Sudo runs it as root by sudo, which must not ask for a password.
	Sudo bool

	// Clock is the real one by default.
	Clock clock.WithDelayedExecution
	// Logger gets what the program writes to standard error, unless that is too much, and what happens on the way. Default: none.
	Logger *slog.Logger
	// Note is told what Dial waits for where that may take long. Default: nobody.
	Note func(error)
	// Registerer gets the count of host keys that were refused. Default: none.
	Registerer prometheus.Registerer
}

// Dialer opens connections to the program on one host.
type Dialer struct {
	o       Options
	limits  limits
	pinned  []PinnedKey
	refused prometheus.Counter
	// dial opens the connection to the first server.
	dial func(ctx context.Context, address string) (net.Conn, error)

	says     *calmlog.Log // what the host does
	once     sync.Mutex   // held by who puts the program on the host
	patience *patience
}

// New checks the options and reads the files that they name. dial opens a TCP connection that is given up when its other end
// vanishes. All that is wrong is reported at once, as InvalidArgument where it is not that a file cannot be read.
func New(o Options, dial func(ctx context.Context, address string) (net.Conn, error)) (*Dialer, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Note == nil {
		o.Note = func(error) {}
	}
	if o.Binaries == nil {
		o.Binaries = &Binaries{}
	}
	if o.CacheDir == "" {
		o.CacheDir = DefaultCacheDir
	}
	d := &Dialer{o: o, limits: usualLimits, dial: dial, says: calmlog.NewBusy(o.Logger, o.Clock), patience: newPatience(o.Clock), refused: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tombolo_node_host_keys_refused_total",
		Help: "Host keys of SSH servers that were not accepted: unknown, changed or revoked ones.",
	})}
	var problems []error
	for _, text := range o.HostKeys.Pinned {
		pin, err := ParsePinnedKey(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("host key %w", err))
		}
		d.pinned = append(d.pinned, pin)
	}
	if len(o.HostKeys.KnownFiles) > 0 {
		_, err := knownChecker(o.HostKeys.KnownFiles, o.Address.HostPort())
		problems = append(problems, err)
	} else if len(d.pinned) == 0 || len(o.Jumps) > 0 {
		problems = append(problems, fmt.Errorf("there is nothing to check the host keys with: %w", errdefs.ErrInvalidArgument))
	}
	if o.Identity.AgentSocket == "" {
		// An agent may come later.
		_, err := o.Identity.read(context.Background())
		problems = append(problems, err)
	}
	problems = append(problems, CheckCacheDir(o.CacheDir))
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(d.refused)
	}
	return d, nil
}

// CheckCacheDir says what is wrong with a CacheDir, as InvalidArgument.
func CheckCacheDir(dir string) error {
	below, home := strings.CutPrefix(dir, "~/")
	if strings.ContainsAny(dir, "\r\n\x00") || home && below == "" || !home && (!filepath.IsAbs(dir) || filepath.Clean(dir) == "/") {
		return fmt.Errorf("cache directory %q: give an absolute path, or one that begins with ~/: %w", dir, errdefs.ErrInvalidArgument)
	}
	return nil
}

// Dial logs in, starts the program, which it puts on the host if need be, and returns when it serves. The caller owns the
// connection. After a login or a host key that was refused, and after a program that could not be put on the host or ended before it
// served, it waits for a while before it tries again: up to a minute, and up to ten where the program was sent in vain.
func (d *Dialer) Dial(ctx context.Context) (net.Conn, error) {
	if err := d.patience.wait(ctx); err != nil {
		return nil, err
	}
	a := &attempt{d: d}
	conn, err := a.run(ctx)
	d.patience.note(err)
	if err != nil {
		a.abort()
		_ = a.ended()
		return nil, err
	}
	return conn, nil
}

// greetingPrefix begins the greeting. The number is that of what follows it: gRPC.
const greetingPrefix = "tombolo-host 1 "

// Greeting is what the program writes before anything else, once it serves. It begins a line of its own whatever a login
// shell wrote before it.
func Greeting(version string) string {
	return "\n" + greetingPrefix + strings.Join(strings.Fields(version), "_") + "\n"
}
