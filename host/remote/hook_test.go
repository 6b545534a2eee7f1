// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

func TestHooksOfEveryKindCrossTheLink(t *testing.T) {
	base := host.HookRequest{PodUID: "u", ContainerID: "c", Kind: host.HookPostStart, Timeout: 1500 * time.Millisecond}
	want := filled[host.HookResult](t)
	fake := &fakeHost{hook: &want}
	l := connect(t, fake, nil)
	for name, change := range map[string]func(*host.HookRequest){
		"command":       func(r *host.HookRequest) { r.Command = []string{"a", "b c"} },
		"request":       func(r *host.HookRequest) { r.HTTPGet = ptr.To(filled[host.HTTPRequest](t)) },
		"pause":         func(r *host.HookRequest) { r.Sleep = ptr.To(1700 * time.Millisecond) },
		"pause of zero": func(r *host.HookRequest) { r.Sleep = new(time.Duration) },
		"no limit":      func(r *host.HookRequest) { r.Command, r.Timeout = []string{"a"}, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			req := base
			change(&req)
			fake.asked = nil
			got, err := l.client.RunHook(t.Context(), req)
			if diff := cmp.Diff(&want, got); diff != "" || err != nil {
				t.Errorf("answered: %v %s", err, diff)
			}
			if diff := cmp.Diff([]any{req}, fake.asked); diff != "" {
				t.Errorf("asked: %s", diff)
			}
		})
	}
}

func TestHooksAndProbesHaveTheirTimeAndWhatTheAnswerTakes(t *testing.T) {
	h := &deadlineHost{}
	l := connect(t, h, nil)
	for name, test := range map[string]struct {
		call func() error
		want time.Duration // zero is none
	}{
		"hook without limit": {func() error { return second(l.client.RunHook(t.Context(), host.HookRequest{})) }, 0},
		"hook":               {func() error { return second(l.client.RunHook(t.Context(), host.HookRequest{Timeout: time.Hour})) }, time.Hour + answerSlack},
		"hook for ever":      {func() error { return second(l.client.RunHook(t.Context(), host.HookRequest{Timeout: math.MaxInt64})) }, math.MaxInt64},
		"probe":              {func() error { return second(l.client.Probe(t.Context(), host.ProbeRequest{Timeout: time.Minute})) }, time.Minute + answerSlack},
		"watch": {func() error {
			err := l.client.WatchPods(t.Context(), host.WatchRequest{}, func(host.PodsChanged) error { return nil })
			if errdefs.IsUnavailable(err) {
				return nil
			}
			return err
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			h.left = -1
			if err := test.call(); err != nil {
				t.Fatal(err)
			}
			if h.left > test.want || h.left < test.want-10*time.Second {
				t.Errorf("ends after %s, want %s", h.left, test.want)
			}
		})
	}
}

// deadlineHost notes how much time the calls have, 0 if there is no end.
type deadlineHost struct {
	fakeHost
	left time.Duration
}

func (h *deadlineHost) note(ctx context.Context) {
	h.left = 0
	if deadline, ok := ctx.Deadline(); ok {
		h.left = time.Until(deadline)
	}
}

func (h *deadlineHost) RunHook(ctx context.Context, _ host.HookRequest) (*host.HookResult, error) {
	h.note(ctx)
	return &host.HookResult{}, nil
}

func (h *deadlineHost) Probe(ctx context.Context, _ host.ProbeRequest) (*host.ProbeResult, error) {
	h.note(ctx)
	return &host.ProbeResult{}, nil
}

func (h *deadlineHost) WatchPods(ctx context.Context, _ host.WatchRequest, _ func(host.PodsChanged) error) error {
	h.note(ctx)
	return nil
}
