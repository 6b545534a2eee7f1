// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// fakeUsers gives every pod the same ids.
type fakeUsers struct {
	asked int
	err   error
}

func (f *fakeUsers) EnsureIDRange(context.Context, types.UID) (host.IDRange, error) {
	f.asked++
	return host.IDRange{First: 3 << 16, Length: 1 << 16}, f.err
}

// configRuntime notes the namespaces of users that sandboxes and containers are asked for with.
type configRuntime struct {
	Runtime
	users []*runtimeapi.UserNamespace
}

func (c *configRuntime) RunSandbox(ctx context.Context, cfg *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	c.users = append(c.users, cfg.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions())
	return c.Runtime.RunSandbox(ctx, cfg, handler)
}

func (c *configRuntime) CreateContainer(
	ctx context.Context, sandboxID string, cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig,
) (string, error) {
	c.users = append(c.users, sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions(),
		cfg.GetLinux().GetSecurityContext().GetNamespaceOptions().GetUsernsOptions())
	return c.Runtime.CreateContainer(ctx, sandboxID, cfg, sandbox)
}

// nodeWith is a node whose runtime has handlers; only "able" and the one without a name can make user namespaces.
func nodeWith(able ...string) *v1.Node {
	node := &v1.Node{}
	yes := true
	for _, name := range able {
		node.Status.RuntimeHandlers = append(node.Status.RuntimeHandlers, v1.NodeRuntimeHandler{
			Name: name, Features: &v1.NodeRuntimeHandlerFeatures{UserNamespaces: &yes},
		})
	}
	node.Status.RuntimeHandlers = append(node.Status.RuntimeHandlers, v1.NodeRuntimeHandler{Name: "old"})
	return node
}

func TestPodWithUsersOfItsOwnHasOneMappingEverywhere(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.pod.Spec.HostUsers = new(false)
		b.node = nodeWith("")
		noted := &configRuntime{Runtime: b.syncer.opts.Runtime}
		b.syncer.opts.Runtime = noted
		b.mustSync(t)
		b.exit(t, "web", 1)
		b.node = nil // what is made needs no promise any more
		b.mustSync(t)
		mapping := []*runtimeapi.IDMapping{{HostId: 3 << 16, Length: 1 << 16}}
		want := &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: mapping, Gids: mapping}
		if len(noted.users) < 3 {
			t.Fatalf("%d namespaces", len(noted.users))
		}
		for i, got := range noted.users {
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%d (-want +got):\n%s", i, diff)
			}
		}
	})
}

func TestPodWithUsersOfItsOwnWaitsForARuntimeThatCan(t *testing.T) {
	for _, tt := range []struct {
		desc, class string
		node        *v1.Node
		host        error
		event       string
	}{
		{"a runtime that cannot", "", nodeWith(), nil,
			"FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
		{"a handler that cannot", "old", nodeWith(""), nil,
			"FailedCreatePodSandBox: Failed to create pod sandbox: can't set `spec.hostUsers: false`, RuntimeClass handler \"old\" does not support user namespaces"},
		{"a node that is not known", "", nil, nil, ""},
		{"a host that does not answer", "", nodeWith(""), errdefs.ErrUnavailable, ""},
		{"no ids left", "", nodeWith(""), errdefs.ErrResourceExhausted.WithMessage("all ranges are in use"),
			"FailedCreatePodSandBox: Failed to create pod sandbox: create user namespace: all ranges are in use"},
	} {
		scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
			b := newBench(rt, v1.RestartPolicyAlways, "web")
			b.pod.Spec.HostUsers, b.pod.Spec.RuntimeClassName = new(false), new(tt.class)
			b.node, b.users.err, b.syncer.opts.RuntimeClasses = tt.node, tt.host, fakeClasses{"old": "old"}
			noted := b.noteHandlers()
			if r := b.sync(t); r.Err == nil || len(noted.handlers) > 0 {
				t.Errorf("%s: started: %v", tt.desc, r.Err)
			}
			if tt.event == "" {
				b.wantEvents(t)
			} else {
				b.wantEvents(t, tt.event)
			}
		})
	}
}

func TestPodWithTheUsersOfTheHostNeedsNoIDs(t *testing.T) {
	for _, users := range []*bool{nil, new(true)} {
		scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
			b := newBench(rt, v1.RestartPolicyAlways, "web")
			b.pod.Spec.HostUsers = users
			b.mustSync(t)
			if b.users.asked > 0 {
				t.Error("it has ids of its own")
			}
		})
	}
}
