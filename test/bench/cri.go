// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/test/images"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

// graceSeconds is the grace period of all pods, the API's default. The program in them ends at once.
const graceSeconds = 30

// bareCRI makes pods with the five requests it takes and nothing around them: what no node can be faster than.
type bareCRI struct {
	host       *testbed.Host
	connection *grpc.ClientConn
	runtime    runtimeapi.RuntimeServiceClient

	mu   sync.Mutex
	pods map[string]criPod
}

type criPod struct{ sandbox, container string }

var _ target = (*bareCRI)(nil)

func newBareCRI(host *testbed.Host) (*bareCRI, error) {
	connection, err := dialCRI(host)
	if err != nil {
		return nil, err
	}
	return &bareCRI{
		host: host, connection: connection, runtime: runtimeapi.NewRuntimeServiceClient(connection), pods: map[string]criPod{},
	}, nil
}

func dialCRI(host *testbed.Host) (*grpc.ClientConn, error) {
	return grpc.NewClient("unix://"+host.ContainerdSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func (b *bareCRI) name() string { return "bare CRI" }

func (b *bareCRI) start(ctx context.Context, names []string) ([]time.Duration, error) {
	return each(ctx, names, b.startOne)
}

func (b *bareCRI) remove(ctx context.Context, names []string) ([]time.Duration, error) {
	return each(ctx, names, b.removeOne)
}

func (b *bareCRI) crash(context.Context, string) (time.Duration, error) { return 0, errNoSuch }
func (b *bareCRI) usage() (usage, error)                                { return usage{}, errNoSuch }

// each calls do for all names at once and returns how long after the beginning each was done.
func each(ctx context.Context, names []string, do func(context.Context, string) error) ([]time.Duration, error) {
	begin := time.Now()
	took := make([]time.Duration, len(names))
	var group errgroup.Group
	for i, name := range names {
		group.Go(func() error {
			err := do(ctx, name)
			took[i] = time.Since(begin)
			return err
		})
	}
	return took, group.Wait()
}

func (b *bareCRI) startOne(ctx context.Context, name string) error {
	logs := filepath.Join(b.host.Dir(), "pod-logs", name)
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: name, Uid: name, Namespace: namespace},
		LogDirectory: logs, Linux: &runtimeapi.LinuxPodSandboxConfig{},
	}
	sandbox, err := b.runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config})
	if err != nil {
		return fmt.Errorf("running sandbox %s: %w", name, err)
	}
	container, err := b.runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: sandbox.PodSandboxId, SandboxConfig: config,
		Config: &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: containerName}, LogPath: containerName + ".log",
			Image: &runtimeapi.ImageSpec{Image: images.Pause}, Linux: &runtimeapi.LinuxContainerConfig{},
		},
	})
	if err != nil {
		return fmt.Errorf("creating the container of %s: %w", name, err)
	}
	if _, err := b.runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: container.ContainerId}); err != nil {
		return fmt.Errorf("starting the container of %s: %w", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pods[name] = criPod{sandbox: sandbox.PodSandboxId, container: container.ContainerId}
	return nil
}

func (b *bareCRI) removeOne(ctx context.Context, name string) error {
	b.mu.Lock()
	pod := b.pods[name]
	delete(b.pods, name)
	b.mu.Unlock()
	for _, step := range []func() error{
		func() error {
			_, err := b.runtime.StopContainer(ctx, &runtimeapi.StopContainerRequest{ContainerId: pod.container, Timeout: graceSeconds})
			return err
		},
		func() error {
			_, err := b.runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod.sandbox})
			return err
		},
		func() error {
			_, err := b.runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: pod.container})
			return err
		},
		func() error {
			_, err := b.runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: pod.sandbox})
			return err
		},
	} {
		if err := step(); err != nil {
			return fmt.Errorf("removing pod %s: %w", name, err)
		}
	}
	return nil
}
