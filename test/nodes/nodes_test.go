// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

// TestKubeletMakesANode shows that the real kubelet runs on a host of the testbed and is gone with it.
func TestKubeletMakesANode(t *testing.T) {
	testbed.RequireE2E(t)
	cluster := testbed.StartT(t, testbed.Options{})
	if _, err := os.Stat(filepath.Join(cluster.Bin(), "kubelet")); err != nil {
		t.Skipf("the kubelet is not built, it is for comparisons only: %v", err)
	}
	host, err := cluster.AddHost(t.Context(), "rival", testbed.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node, err := Start(t.Context(), cluster, host, Kubelet, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Kubectl(t.Context(), "run", "hello", "--image=docker.io/library/busybox:1.37", "--restart=Never", "--",
		"echo", "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Kubectl(t.Context(), "wait", "--for=jsonpath={.status.phase}=Succeeded", "pod/hello", "--timeout=60s"); err != nil {
		t.Error(err)
	}
	if err := node.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
