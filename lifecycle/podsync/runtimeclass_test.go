// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

type fakeClasses map[string]string

func (f fakeClasses) RuntimeHandler(_ context.Context, class string) (string, error) {
	if h, ok := f[class]; ok {
		return h, nil
	}
	return "", errors.New("runtimeclass.node.k8s.io \"" + class + "\" not found")
}

// handlerRuntime notes the handlers that sandboxes are asked for with.
type handlerRuntime struct {
	Runtime
	handlers []string
}

func (h *handlerRuntime) RunSandbox(ctx context.Context, cfg *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	h.handlers = append(h.handlers, handler)
	return h.Runtime.RunSandbox(ctx, cfg, handler)
}

func (b *bench) noteHandlers() *handlerRuntime {
	h := &handlerRuntime{Runtime: b.syncer.opts.Runtime}
	b.syncer.opts.Runtime = h
	return h
}

func TestSandboxHasTheHandlerOfItsRuntimeClass(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.pod.Spec.RuntimeClassName = new("gvisor")
		noted, classes := b.noteHandlers(), fakeClasses{}
		b.syncer.opts.RuntimeClasses = classes
		if r := b.sync(t); r.Err == nil {
			t.Error("started without its class")
		}
		b.wantEvents(t, `FailedCreatePodSandBox: Failed to create pod sandbox: runtimeclass.node.k8s.io "gvisor" not found`)
		classes["gvisor"] = "runsc"
		b.mustSync(t)
		if got := noted.handlers; len(got) != 1 || got[0] != "runsc" {
			t.Errorf("handlers %q, want one runsc", got)
		}
	})
}

func TestPodWithoutARuntimeClassLeavesTheHandlerToTheRuntime(t *testing.T) {
	for _, class := range []*string{nil, new("")} {
		scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
			b := newBench(rt, v1.RestartPolicyAlways, "web")
			b.pod.Spec.RuntimeClassName = class
			noted := b.noteHandlers()
			b.mustSync(t)
			if got := noted.handlers; len(got) != 1 || got[0] != "" {
				t.Errorf("handlers %q, want one that is empty", got)
			}
		})
	}
}
