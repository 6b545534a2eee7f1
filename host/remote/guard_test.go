// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/link/calmlog"
)

// noPolicy refuses everything.
type noPolicy struct{}

var errRefused = fmt.Errorf("no such thing here: %w", errdefs.ErrPermissionDenied)

func (noPolicy) Sandbox(*runtimeapi.PodSandboxConfig) error { return errRefused }
func (noPolicy) Container(*runtimeapi.ContainerConfig, *runtimeapi.PodSandboxConfig) (*runtimeapi.ContainerConfig, error) {
	return nil, errRefused
}
func (noPolicy) Volume(host.Volume) (host.Volume, error) { return host.Volume{}, errRefused }

// TestWhatThePolicyRefusesNeverReachesTheMachine: there is nothing behind the guard that could be called.
func TestWhatThePolicyRefusesNeverReachesTheMachine(t *testing.T) {
	var log bytes.Buffer
	g := guard{policy: noPolicy{}, refused: calmlog.New(slog.New(slog.NewTextHandler(&log, nil)), clock.RealClock{})}
	runtime, machine := &runtimeForwarder{guard: g}, &service{guard: g}
	ctx := t.Context()
	for what, call := range map[string]func() error{
		"sandbox": func() error {
			_, err := runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{})
			return err
		},
		"container": func() error {
			_, err := runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{})
			return err
		},
		"checkpoint": func() error {
			_, err := runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{})
			return err
		},
		"checkpoint of a pod": func() error {
			_, err := runtime.CheckpointPod(ctx, &runtimeapi.CheckpointPodRequest{})
			return err
		},
		"restored pod": func() error {
			_, err := runtime.RestorePod(ctx, &runtimeapi.RestorePodRequest{})
			return err
		},
		"volume": func() error {
			_, err := machine.EnsureVolume(ctx, volumeToWire("u", host.Volume{Name: "v", HostPath: "/h"}))
			return err
		},
	} {
		log.Reset()
		if err := call(); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: %v", what, err)
		}
		if !strings.Contains(log.String(), "refused") {
			t.Errorf("%s: the log does not tell: %s", what, log.String())
		}
	}
}

func TestWithoutAPolicyEverythingIsAllowed(t *testing.T) {
	var g guard
	v, err := g.volume("u", host.Volume{HostPath: "/h"})
	if v.HostPath != "/h" || v.NoLinks {
		t.Errorf("the volume became %+v", v)
	}
	request := &runtimeapi.CreateContainerRequest{Config: &runtimeapi.ContainerConfig{Mounts: []*runtimeapi.Mount{{HostPath: "/h"}}}}
	judged, err1 := g.container(request)
	pinned, err2 := g.pin(t.Context(), judged)
	if pinned != request || request.GetConfig().GetMounts()[0].GetHostPath() != "/h" {
		t.Errorf("the container became %v", pinned)
	}
	for _, err := range []error{g.sandbox(nil), err1, err2, err, g.checkpoint()} {
		if err != nil {
			t.Error(err)
		}
	}
}

// linkPolicy allows everything, at the path without links.
type linkPolicy struct{ noPolicy }

func (linkPolicy) Container(cfg *runtimeapi.ContainerConfig, _ *runtimeapi.PodSandboxConfig) (*runtimeapi.ContainerConfig, error) {
	cfg = proto.CloneOf(cfg)
	for _, m := range cfg.GetMounts() {
		m.HostPath = strings.Replace(m.GetHostPath(), "/link", "/judged", 1)
	}
	return cfg, nil
}

// fakePins pins everything but one path.
type fakePins struct{ asked []host.PinnedPath }

func (f *fakePins) PinPath(_ context.Context, uid types.UID, p host.PinnedPath) (string, error) {
	if p.Path == "/judged/swapped" {
		return "", fmt.Errorf("swapped became a link: %w", errdefs.ErrPermissionDenied)
	}
	f.asked = append(f.asked, p)
	return "/pinned/" + string(uid) + p.Path, nil
}

// TestRuntimeIsToldOfPinsOfWhatWasJudged: between the judgement and the runtime no name counts that a pod can change.
func TestRuntimeIsToldOfPinsOfWhatWasJudged(t *testing.T) {
	pins := &fakePins{}
	g := guard{policy: linkPolicy{}, pins: pins, refused: calmlog.New(slog.New(slog.DiscardHandler), clock.RealClock{})}
	create := func(mounts ...*runtimeapi.Mount) (*runtimeapi.CreateContainerRequest, error) {
		judged, err := g.container(&runtimeapi.CreateContainerRequest{
			PodSandboxId: "s", SandboxConfig: &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Uid: "u"}},
			Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "c"}, Mounts: mounts},
		})
		if err != nil {
			return nil, err
		}
		return g.pin(t.Context(), judged)
	}
	made, err := create(
		&runtimeapi.Mount{HostPath: "/link/a"}, &runtimeapi.Mount{HostPath: "/link/b", Readonly: true}, &runtimeapi.Mount{Image: &runtimeapi.ImageSpec{}},
		&runtimeapi.Mount{HostPath: "/link/c", Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
	)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range made.GetConfig().GetMounts() {
		got = append(got, m.GetHostPath())
	}
	if diff := cmp.Diff([]string{"/pinned/u/judged/a", "/pinned/u/judged/b", "", "/judged/c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want := []host.PinnedPath{{Path: "/judged/a", Make: true, Container: "c"}, {Path: "/judged/b", Container: "c", Mount: 1}}
	if diff := cmp.Diff(want, pins.asked); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if made.GetPodSandboxId() != "s" || made.GetSandboxConfig().GetMetadata().GetUid() != "u" {
		t.Errorf("the request lost something: %v", made)
	}
	if _, err := create(&runtimeapi.Mount{HostPath: "/link/swapped"}); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "/judged/swapped") {
		t.Errorf("a path that became a link: %v", err)
	}
}

func TestRefusalsOfANodeThatGoesOnAskingDoNotFillTheLog(t *testing.T) {
	var log bytes.Buffer
	g := guard{policy: noPolicy{}, refused: calmlog.New(slog.New(slog.NewTextHandler(&log, nil)), clock.RealClock{})}
	const asked = 1000
	for range asked {
		if err := g.sandbox(nil); status.Code(err) != codes.PermissionDenied {
			t.Fatal(err)
		}
	}
	if n := bytes.Count(log.Bytes(), []byte("\n")); n == 0 || n > asked/10 {
		t.Errorf("%d lines of %d", n, asked)
	}
}
