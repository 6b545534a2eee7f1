// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
)

// remote is a machine that can be taken away.
type remote struct {
	mu sync.Mutex
	// factsErr and runtimeErr fail the calls at once, hang lets them wait for their deadline.
	factsErr, runtimeErr error
	hang                 bool
	// broken ends calls that hang, as the end of their connection does.
	broken       chan struct{}
	skew         time.Duration
	conditions   []*runtimeapi.RuntimeCondition
	polls, lists int
}

func (r *remote) set(change func(*remote)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(r)
}

func (r *remote) wait(ctx context.Context) error {
	r.mu.Lock()
	hang, broken := r.hang, r.broken
	r.mu.Unlock()
	if !hang {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-broken:
		return refused()
	}
}

func (r *remote) Facts(ctx context.Context) (*host.Facts, error) {
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.polls++
	if r.factsErr != nil {
		return nil, r.factsErr
	}
	return &host.Facts{
		BootID: "b1", Clock: time.Now().Add(r.skew),
		Addresses: []string{"192.0.2.7", "2001:db8::7", "192.0.2.8", "not an address"},
	}, nil
}

func (r *remote) Version(context.Context) (*runtimeapi.VersionResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.4.2"}, r.runtimeErr
}

func (r *remote) Status(ctx context.Context) (*runtimeapi.StatusResponse, error) {
	if err := r.wait(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runtimeErr != nil {
		return nil, r.runtimeErr
	}
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: r.conditions}}, nil
}

func (r *remote) ListImages(context.Context) ([]*runtimeapi.Image, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lists++
	return []*runtimeapi.Image{{Id: "i1"}}, r.runtimeErr
}

func allWell() []*runtimeapi.RuntimeCondition {
	return []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
	}
}

// watch runs a monitor of r in the bubble of the test until its end.
func watch(t *testing.T, r *remote, registry prometheus.Registerer) *Monitor {
	t.Helper()
	m := New(Options{Target: "tls://192.0.2.7:8470", Facts: r, Runtime: r, Clock: clock.RealClock{}, Registerer: registry})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); m.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	synctest.Wait()
	return m
}

func refused() error {
	return fmt.Errorf("host tls://192.0.2.7:8470 is not reachable: connection refused: %w", errdefs.ErrUnavailable)
}

func TestMonitorKnowsNothingBeforeTheFirstAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{factsErr: refused(), runtimeErr: refused(), conditions: allWell()}
		m := watch(t, r, nil)
		s := m.State()
		if s.Known() || m.Facts() != nil || m.HostIPs() != nil || s.Link != nil {
			t.Fatalf("state after one failed poll: %+v", s)
		}
		if s.LastError == nil {
			t.Error("nothing says what is waited for")
		}
		if m.RuntimeReady() == nil || m.NetworkReady() == nil {
			t.Error("a runtime that never answered counts as ready")
		}
		r.set(func(r *remote) { r.factsErr, r.runtimeErr = nil, nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := m.State(); !s.Known() || s.LastError != nil {
			t.Errorf("state after the host came: %+v", s)
		}
		if err := m.RuntimeReady(); err != nil {
			t.Error(err)
		}
	})
}

func TestMonitorSaysLinkDownWithinFifteenSecondsOfAKilledHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		r := &remote{conditions: allWell()}
		m := watch(t, r, registry)
		up := func() float64 { return testutil.ToFloat64(m.metrics.hostUp) }
		if up() != 1 {
			t.Errorf("tombolo_host_up = %v at first", up())
		}
		r.set(func(r *remote) { r.factsErr, r.runtimeErr = refused(), refused() })
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if s := m.State(); s.Link != nil {
			t.Errorf("link down after 8 s already: %v", s.LinkError())
		}
		time.Sleep(8 * time.Second)
		synctest.Wait()
		s := m.State()
		want := "link to host tls://192.0.2.7:8470 is down since 2000-01-01T00:00:05Z: " + refused().Error()
		if err := s.LinkError(); err == nil || err.Error() != want {
			t.Errorf("link error:\n got %v\nwant %s", err, want)
		}
		if err := m.RuntimeReady(); !errdefs.IsUnavailable(err) {
			t.Errorf("RuntimeReady = %v with the link down, want Unavailable", err)
		}
		if s.RuntimeDown != nil {
			t.Error("the runtime is blamed for the link")
		}
		if !s.Known() {
			t.Error("the facts were forgotten")
		}
		if up() != 0 {
			t.Errorf("tombolo_host_up = %v with the link down", up())
		}
	})
}

func TestMonitorLetsTheLinkSayWhatIsWrongSinceTheEarlierTime(t *testing.T) {
	for name, tc := range map[string]struct {
		since time.Duration
		want  string
	}{
		"link saw it first":    {-4 * time.Hour, "1999-12-31T20:00:00Z"},
		"request saw it first": {time.Hour, "2000-01-01T00:00:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &remote{factsErr: refused(), runtimeErr: refused()}
				since := time.Now().Add(tc.since)
				m := New(Options{
					Target: "tls://192.0.2.7:8470", Facts: r, Runtime: r, Clock: clock.RealClock{},
					Link: func() (time.Time, error) { return since, errors.New("certificate of the host has expired") },
				})
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); m.Run(ctx) }()
				time.Sleep(time.Minute)
				cancel()
				<-done
				s := m.State()
				want := "link to host tls://192.0.2.7:8470 is down since " + tc.want + ": certificate of the host has expired"
				if err := s.LinkError(); err == nil || err.Error() != want || !errdefs.IsUnavailable(err) {
					t.Errorf("link error:\n got %v\nwant %s, Unavailable", err, want)
				}
				if s.LastError == nil || s.LastError.Error() != "certificate of the host has expired" {
					t.Errorf("last error = %v", s.LastError)
				}
			})
		})
	}
}

func TestMonitorSaysLinkDownWithinTwentySecondsOfASilentHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{conditions: allWell()}
		m := watch(t, r, nil)
		r.set(func(r *remote) { r.hang = true })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if s := m.State(); s.Link == nil || !strings.HasSuffix(s.LinkError().Error(), "the host did not answer within 5s") {
			t.Errorf("a host that swallows every request for 20 s: %v", s.LinkError())
		}
	})
}

// The connection itself is given up 14 s after the last sign of life.
func TestMonitorTellsOfASilentCutAsSoonAsTheConnectionIsGivenUp(t *testing.T) {
	const givenUp = 14 * time.Second
	for _, cut := range []time.Duration{0, time.Millisecond, time.Second, 4999 * time.Millisecond} { // after the last answer
		synctest.Test(t, func(t *testing.T) {
			r := &remote{conditions: allWell(), broken: make(chan struct{})}
			m := watch(t, r, nil)
			time.Sleep(cut)
			r.set(func(r *remote) { r.hang = true })
			time.Sleep(givenUp)
			close(r.broken)
			synctest.Wait()
			s := m.State()
			if s.Link == nil {
				t.Fatalf("cut %s after the last answer: up when the connection is gone", cut)
			}
			if want := "2000-01-01T00:00:05Z"; s.Link.Since.UTC().Format(time.RFC3339) != want {
				t.Errorf("cut %s after the last answer: down since %s, want %s", cut, s.Link.Since, want)
			}
		})
	}
}

func TestMonitorSaysThatThereIsNoConnectionBeforeItCountsAsAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost error
		since := time.Now()
		m := New(Options{
			Target: "tls://192.0.2.7:8470", Facts: &remote{}, Runtime: &remote{}, Clock: clock.RealClock{},
			Link: func() (time.Time, error) { return since, lost },
		})
		if err := m.LinkDown(); err != nil {
			t.Errorf("with a connection: %v", err)
		}
		lost = errors.New("connection reset by peer")
		want := "link to host tls://192.0.2.7:8470 is down since 2000-01-01T00:00:00Z: connection reset by peer"
		if err := m.LinkDown(); err == nil || err.Error() != want || !errdefs.IsUnavailable(err) {
			t.Errorf("without one: %v, want %s, Unavailable", err, want)
		}
		if err := m.RuntimeReady(); errdefs.IsUnavailable(err) {
			t.Errorf("it counts as an outage at once: %v", err)
		}
	})
}

func TestMonitorSeesTheHostAgainWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{conditions: allWell()}
		m := watch(t, r, nil)
		r.set(func(r *remote) { r.factsErr, r.runtimeErr = refused(), refused() })
		time.Sleep(time.Hour)
		synctest.Wait()
		if s := m.State(); s.Link == nil {
			t.Fatal("link is up")
		}
		r.set(func(r *remote) { r.factsErr, r.runtimeErr = nil, nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := m.State(); s.Link != nil || m.RuntimeReady() != nil {
			t.Errorf("2 s after the return: link %v, runtime %v", s.LinkError(), m.RuntimeReady())
		}
	})
}

func TestMonitorShortRestartOfTheHostIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{conditions: allWell()}
		m := watch(t, r, nil)
		for range 20 {
			r.set(func(r *remote) { r.factsErr, r.runtimeErr = refused(), refused() })
			for range 6 {
				time.Sleep(time.Second)
				synctest.Wait()
				if s := m.State(); s.Link != nil || m.RuntimeReady() != nil {
					t.Fatalf("an outage of 6 s counts: %v", s.LinkError())
				}
			}
			r.set(func(r *remote) { r.factsErr, r.runtimeErr = nil, nil })
			time.Sleep(7 * time.Second)
		}
	})
}

func TestMonitorSaysRuntimeDownAfterThirtySecondsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{conditions: allWell()}
		m := watch(t, r, nil)
		r.set(func(r *remote) { r.runtimeErr = fmt.Errorf("containerd is not reachable: %w", errdefs.ErrUnavailable) })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if err := m.RuntimeReady(); err != nil {
			t.Errorf("after 30 s, 25 of them without an answer: %v", err)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		s := m.State()
		if err := m.RuntimeReady(); !errdefs.IsUnavailable(err) || s.RuntimeDown == nil || s.Link != nil {
			t.Errorf("after 40 s: %v, link %v", err, s.Link)
		}
		r.set(func(r *remote) { r.runtimeErr = nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := m.RuntimeReady(); err != nil {
			t.Errorf("2 s after its return: %v", err)
		}
	})
}

func TestMonitorQuotesTheRuntimesConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true},
			{Type: runtimeapi.NetworkReady, Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized"},
		}}
		m := watch(t, r, nil)
		if err := m.RuntimeReady(); err != nil {
			t.Error(err)
		}
		want := "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:cni plugin not initialized"
		if err := m.NetworkReady(); err == nil || err.Error() != want {
			t.Errorf("NetworkReady = %v\nwant %s", err, want)
		}
		r.set(func(r *remote) { r.conditions = nil })
		time.Sleep(6 * time.Second)
		synctest.Wait()
		if m.RuntimeReady() == nil {
			t.Error("a runtime that does not say that it is ready counts as ready")
		}
	})
}

func TestMonitorPollsAnIdleMachineSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{conditions: allWell()}
		watch(t, r, nil)
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		r.set(func(r *remote) {
			if r.polls != 121 || r.lists != 11 {
				t.Errorf("%d polls and %d lists of images in 10 minutes, want 121 and 11", r.polls, r.lists)
			}
		})
	})
}

func TestMonitorTellsTheHostsTimeAndAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &remote{conditions: allWell(), skew: -time.Hour}
		m := watch(t, r, nil)
		if got := time.Until(m.HostTime()); got != -time.Hour {
			t.Errorf("host is %v ahead, want -1h", got)
		}
		if d := cmp.Diff([]string{"192.0.2.7", "2001:db8::7"}, m.HostIPs()); d != "" {
			t.Errorf("host IPs (-want +got):\n%s", d)
		}
	})
}
