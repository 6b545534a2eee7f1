// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// noPolicy refuses everything.
type noPolicy struct{}

var errRefused = fmt.Errorf("no such thing here: %w", errdefs.ErrPermissionDenied)

func (noPolicy) Sandbox(*runtimeapi.PodSandboxConfig) error { return errRefused }
func (noPolicy) Container(*runtimeapi.ContainerConfig, *runtimeapi.PodSandboxConfig) error {
	return errRefused
}
func (noPolicy) Volume(host.Volume) (host.Volume, error) { return host.Volume{}, errRefused }

// TestWhatThePolicyRefusesNeverReachesTheMachine: there is nothing behind the guard that could be called.
func TestWhatThePolicyRefusesNeverReachesTheMachine(t *testing.T) {
	var log bytes.Buffer
	g := guard{policy: noPolicy{}, logger: slog.New(slog.NewTextHandler(&log, nil))}
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
	for _, err := range []error{g.sandbox(nil), g.container(nil, nil), err, g.checkpoint()} {
		if err != nil {
			t.Error(err)
		}
	}
}
