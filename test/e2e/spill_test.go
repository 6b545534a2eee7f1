// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// pool is a label of the nodes of this test: a Deployment elsewhere in the suite's cluster would show nothing.
const pool = "tombolo.dev/pool"

// ordinaryRoom is how many pods the ordinary node takes.
const ordinaryRoom = 4

// TestDeploymentSpillsOverOnlyWhenOrdinaryNodesAreFull applies what docs/burst.md says to a node that is ordinary, as far as the
// scheduler knows, and to one that is not.
func TestDeploymentSpillsOverOnlyWhenOrdinaryNodesAreFull(t *testing.T) {
	t.Parallel()
	e := require(t)
	ordinary, burst := e.newSite("meadow"), e.newSite("marsh")
	ordinary.nodeArgs = []string{"--node-labels", pool + "=tide", fmt.Sprintf("--max-pods=%d", ordinaryRoom)}
	burst.nodeArgs = []string{
		"--node-labels", "type=virtual-kubelet," + pool + "=tide",
		"--register-with-taints", strings.Join(burstTaints(t), ","),
	}
	ordinary.startFor(t)
	burst.startFor(t)
	k := on(t, burst)
	deployment := burstDeployment(t)
	deployment.Spec.Template.Spec.NodeSelector = map[string]string{pool: "tide"}
	deployment.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)

	deployment.Spec.Replicas = ptr.To[int32](ordinaryRoom)
	_, err := k.client().AppsV1().Deployments(k.namespace).Create(t.Context(), deployment, metav1.CreateOptions{})
	must(t, err)
	k.awaitSpread(map[string]int{ordinary.name: ordinaryRoom})

	k.kubectl("scale", "deployment", deployment.Name, fmt.Sprintf("--replicas=%d", ordinaryRoom+2))
	k.awaitSpread(map[string]int{ordinary.name: ordinaryRoom, burst.name: 2})
}

// awaitSpread waits until the pods of the test's namespace are Ready, so many on each node.
func (k *tester) awaitSpread(want map[string]int) {
	k.Helper()
	eventually(k.T, usual, fmt.Sprintf("Ready pods %v", want), func() error {
		pods, err := k.client().CoreV1().Pods(k.namespace).List(k.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		got := map[string]int{}
		for _, pod := range pods.Items {
			if ready(&pod) == nil {
				got[pod.Spec.NodeName]++
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}

// burstTaints are the taints that the document gives the node.
func burstTaints(t *testing.T) []string {
	t.Helper()
	var values struct {
		NodeDefaults struct{ Taints []string }
	}
	must(t, yaml.Unmarshal(block(t, "../../docs/burst.md", "nodeDefaults:"), &values))
	if len(values.NodeDefaults.Taints) != 2 {
		t.Fatalf("the document has the taints %q", values.NodeDefaults.Taints)
	}
	return values.NodeDefaults.Taints
}

// burstDeployment is the Deployment of the document.
func burstDeployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	_, _, err := scheme.Codecs.UniversalDeserializer().Decode(block(t, "../../docs/burst.md", "kind: Deployment"), nil, d)
	must(t, err)
	if p := d.Spec.Template.Spec; len(p.Containers) != 1 || len(p.Tolerations) != 1 || p.Tolerations[0].Effect != v1.TaintEffectNoSchedule {
		t.Fatalf("the document has the pods %+v", p)
	}
	return d
}

// block is the code block of a document that has a line.
func block(t *testing.T, file, line string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	for i, part := range bytes.Split(text, []byte("```")) {
		if i%2 == 1 && bytes.Contains(part, []byte("\n"+line)) {
			_, code, _ := bytes.Cut(part, []byte("\n"))
			return code
		}
	}
	t.Fatalf("%s has no code block with %q", file, line)
	return nil
}
