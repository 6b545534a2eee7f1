// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the difference before it is committed")

// goldenCase is a file testdata/NAME.yaml: a pod and what else its configuration is made of.
type goldenCase struct {
	Pod           *v1.Pod                    `json:"pod"`
	Attempt       uint32                     `json:"attempt"`
	ClusterDNS    []string                   `json:"clusterDNS"`
	ClusterDomain string                     `json:"clusterDomain"`
	ResolvConf    string                     `json:"resolvConf"`
	NodeMemory    uint64                     `json:"nodeMemoryBytes"`
	CgroupVersion int                        `json:"cgroupVersion"`
	SeccompDir    string                     `json:"seccompDir"`
	CgroupParent  string                     `json:"cgroupParent"`
	HugePageSizes []int64                    `json:"hugePageSizes"`
	Swap          *Swap                      `json:"swap"`
	IDs           json.RawMessage            `json:"ids"`
	Containers    map[string]goldenContainer `json:"containers"`
}

// goldenContainer is what is not in the pod. Mounts and image are the CRI's messages.
type goldenContainer struct {
	RestartCount int32             `json:"restartCount"`
	ImageRef     string            `json:"imageRef"`
	Image        json.RawMessage   `json:"image"`
	Env          []v1.EnvVar       `json:"env"`
	Command      []string          `json:"command"`
	Args         []string          `json:"args"`
	Mounts       []json.RawMessage `json:"mounts"`
	TargetID     string            `json:"targetID"`
}

// goldenResult is a file testdata/NAME.golden.json.
type goldenResult struct {
	Sandbox    json.RawMessage            `json:"sandbox"`
	Problems   []Problem                  `json:"problems,omitempty"`
	Containers map[string]json.RawMessage `json:"containers"`
}

func TestConfigGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			got := resultOf(t, file)
			golden := filepath.Join("testdata", name+".golden.json")
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("configuration (-want +got), rewrite with -update if it is right:\n%s", diff)
			}
		})
	}
}

func resultOf(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var in goldenCase
	if err := yaml.UnmarshalStrict(content, &in); err != nil {
		t.Fatal(err)
	}
	before := in.Pod.DeepCopy()
	var result goldenResult
	var dns *runtimeapi.DNSConfig
	dns, result.Problems = DNSConfig(DNSInput{
		Pod: in.Pod, ClusterDNS: in.ClusterDNS, ClusterDomain: in.ClusterDomain, ResolvConf: in.ResolvConf,
	})
	hostname, err := SandboxHostname(in.Pod, in.ClusterDomain)
	if err != nil {
		t.Fatal(err)
	}
	sandbox, err := SandboxConfig(SandboxInput{
		Pod: in.Pod, Attempt: in.Attempt, Identity: goldenIdentity, PodLogsDir: "/var/log/pods", DNS: dns, Hostname: hostname, CgroupParent: in.CgroupParent,
		IDs: in.ids(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	result.Sandbox = encode(t, sandbox)
	result.Containers = map[string]json.RawMessage{}
	containers := slices.Concat(in.Pod.Spec.InitContainers, in.Pod.Spec.Containers)
	for _, c := range in.Pod.Spec.EphemeralContainers {
		containers = append(containers, v1.Container(c.EphemeralContainerCommon))
	}
	for _, c := range containers {
		cfg, err := ContainerConfig(in.container(t, &c))
		if err != nil {
			t.Fatal(err)
		}
		result.Containers[c.Name] = encode(t, cfg)
	}
	if diff := cmp.Diff(before, in.Pod); diff != "" {
		t.Errorf("the pod was changed:\n%s", diff)
	}
	return indented(t, result)
}

var goldenIdentity = Identity{Cluster: "c1", Node: "edge-1"}

func (g *goldenCase) container(t *testing.T, c *v1.Container) ContainerInput {
	t.Helper()
	extra := g.Containers[c.Name]
	in := ContainerInput{
		Pod: g.Pod, Container: c, RestartCount: extra.RestartCount, ImageRef: extra.ImageRef,
		Command: extra.Command, Args: extra.Args, TargetID: extra.TargetID, Identity: goldenIdentity,
		NodeMemoryBytes: g.NodeMemory, CgroupVersion: g.CgroupVersion, SeccompDir: g.SeccompDir,
	}
	in.HugePageSizes, in.Swap, in.IDs = g.HugePageSizes, ptr.Deref(g.Swap, Swap{}), g.ids(t)
	if extra.Image != nil {
		in.Image = &runtimeapi.Image{}
		decodeProto(t, extra.Image, in.Image)
	}
	for _, e := range extra.Env {
		in.Env = append(in.Env, &runtimeapi.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	for _, raw := range extra.Mounts {
		m := &runtimeapi.Mount{}
		decodeProto(t, raw, m)
		in.Mounts = append(in.Mounts, m)
	}
	return in
}

// ids are those of the host that stand for the pod's.
func (g *goldenCase) ids(t *testing.T) *runtimeapi.IDMapping {
	t.Helper()
	if g.IDs == nil {
		return nil
	}
	ids := &runtimeapi.IDMapping{}
	decodeProto(t, g.IDs, ids)
	return ids
}

func decodeProto(t *testing.T, raw json.RawMessage, m proto.Message) {
	t.Helper()
	if err := protojson.Unmarshal(raw, m); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
}

// encode goes by way of the wire, as it would to the runtime.
func encode(t *testing.T, m proto.Message) json.RawMessage {
	t.Helper()
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	received := m.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(wire, received); err != nil {
		t.Fatal(err)
	}
	b, err := protojson.Marshal(received)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// indented is JSON with sorted keys, since the encoding of protobuf messages varies on purpose.
func indented(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(b, &plain); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(plain); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
