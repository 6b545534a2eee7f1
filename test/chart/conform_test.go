// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// customKinds are those that Kubernetes itself does not have.
var customKinds = []string{"monitoring.coreos.com/v1/ServiceMonitor"}

// conformer is the one for a version.
func conformer(t *testing.T, version string) *Conformer {
	t.Helper()
	c, err := NewConformer(version, t.TempDir())
	if errors.Is(err, ErrNoKubeconform) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestManifestsAreThoseOfKubernetes(t *testing.T) {
	plain, err := os.ReadFile("../../deploy/kubernetes/tombolo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifests := map[string]string{"deploy/kubernetes": string(plain)}
	for _, values := range []string{"one", "full"} {
		manifests["values "+values] = template(t, release(values))
	}
	for _, version := range KubernetesVersions() {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			c := conformer(t, version)
			for name, text := range manifests {
				if err := c.Check(t.Context(), text, customKinds...); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
}

// TestManifestsOfOthersAreFound breaks what is rendered in the ways that kubeconform is there for.
func TestManifestsOfOthersAreFound(t *testing.T) {
	c := conformer(t, KubernetesVersions()[0])
	good := template(t, release("full"))
	for name, tc := range map[string]struct{ from, to, want string }{
		"a field that is not there": {"  replicas: 1\n", "  replicas: 1\n  replica: 1\n", "replica"},
		"a field deep inside":       {"allowPrivilegeEscalation: false", "allowPrivilegesEscalation: false", "allowPrivilegesEscalation"},
		"another type":              {"  replicas: 1\n", "  replicas: one\n", "replicas"},
		"something that is missing": {"      serviceAccountName: ", "      containers: []\n      serviceAccountName: ", "containers"},
		"a version that is gone":    {"apiVersion: policy/v1\n", "apiVersion: policy/v1beta1\n", "PodDisruptionBudget"},
		"a kind nobody knows":       {"kind: NetworkPolicy\n", "kind: NetworkPolice\n", "NetworkPolice"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(good, tc.from, tc.to, 1)
			if bad == good {
				t.Fatalf("there is no %q", tc.from)
			}
			if err := c.Check(t.Context(), bad, customKinds...); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want a word about %q", err, tc.want)
			}
		})
	}
	if err := c.Check(t.Context(), good); err == nil || !strings.Contains(err.Error(), "ServiceMonitor") {
		t.Errorf("%v, want a word about the ServiceMonitor", err)
	}
}

// TestSuites runs those of charts/tombolo/tests.
func TestSuites(t *testing.T) {
	program, err := exec.LookPath("helm-unittest")
	if err != nil {
		t.Skip("helm-unittest is not on the PATH: run make unit, or put $(go run -C tools ./cmd/parts bin) on the PATH after: go run -C tools ./cmd/parts build unit")
	}
	out, err := exec.CommandContext(t.Context(), program, "--strict", "--color=false", folder).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
