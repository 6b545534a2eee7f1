// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// watchedRuntime keeps the environment of the container that was made last.
type watchedRuntime struct {
	Runtime
	env map[string]string
}

func (w *watchedRuntime) CreateContainer(
	ctx context.Context, sandboxID string, cfg *runtimeapi.ContainerConfig, sandbox *runtimeapi.PodSandboxConfig,
) (string, error) {
	w.env = map[string]string{}
	for _, kv := range cfg.GetEnvs() {
		w.env[kv.GetKey()] = string(kv.GetValue())
	}
	return w.Runtime.CreateContainer(ctx, sandboxID, cfg, sandbox)
}

func TestContainerIsToldTheAddressesOfItsNewSandboxAndOfItsNode(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		field := func(name, path string) v1.EnvVar {
			return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{FieldPath: path}}}
		}
		b.pod.Spec.Containers[0].Env = []v1.EnvVar{
			field("IP", "status.podIP"), field("HOST", "status.hostIPs"),
			{Name: "MEMORY", ValueFrom: &v1.EnvVarSource{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.memory"}}},
		}
		runtime := &watchedRuntime{Runtime: b.syncer.opts.Runtime}
		b.syncer.opts.Runtime = runtime
		b.syncer.opts.HostIPs = func() []string { return []string{"192.0.2.1", "2001:db8::1"} }
		b.syncer.opts.Node = func() *v1.Node {
			return &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1000")}}}
		}
		b.mustSync(t)
		want := map[string]string{"IP": b.observe(t).IPs[0], "HOST": "192.0.2.1,2001:db8::1", "MEMORY": "1000"}
		if diff := gocmp.Diff(want, runtime.env); diff != "" {
			t.Errorf("environment (-want +got):\n%s", diff)
		}
	})
}

func TestPodThatWaitsForAnObjectTakesNobodysTurn(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.pod.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{}}}
		reads, inside := 0, 0
		b.objects.asked = func() {
			b.syncer.gate.mu.Lock()
			defer b.syncer.gate.mu.Unlock()
			reads++
			inside += len(b.syncer.gate.inside)
		}
		if r := b.sync(t); r.Err == nil {
			t.Error("the pod started without its secret")
		}
		if reads == 0 || inside != 0 {
			t.Errorf("%d pods had a turn during %d reads, want none", inside, reads)
		}
	})
}
