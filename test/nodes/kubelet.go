// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// kubeletConfig leaves the kubelet's defaults alone but for what this environment asks for: no cgroup v2, no systemd, files
// in the host's folder, and a disk that is the machine's and as full as that is.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.Address}}
port: 10250
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: {{.CAFile}}}
authorization: {mode: Webhook}
tlsCertFile: {{.CertFile}}
tlsPrivateKeyFile: {{.KeyFile}}
containerRuntimeEndpoint: unix://{{.Socket}}
podLogsDir: {{.Dir}}/pod-logs
clusterDomain: cluster.local
maxPods: {{.MaxPods}}
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
evictionHard: {memory.available: 100Mi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
`

// startKubelet starts the real kubelet on the host.
func (n *Node) startKubelet(ctx context.Context) error {
	c, h := n.cluster, n.Host
	program := filepath.Join(c.Bin(), "kubelet")
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("%w: run go run -C tools ./cmd/parts build compare", err)
	}
	kubeconfig, err := c.NodeKubeconfig(h.Name())
	if err != nil {
		return err
	}
	cert, key, err := c.ServingCert(h.Name(), h.Address())
	if err != nil {
		return err
	}
	dir := filepath.Join(h.Dir(), "kubelet")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	config := strings.NewReplacer(
		"{{.Address}}", h.Address().String(), "{{.CAFile}}", c.CAFile(), "{{.CertFile}}", cert, "{{.KeyFile}}", key,
		"{{.Socket}}", h.ContainerdSocket(), "{{.Dir}}", h.Dir(), "{{.MaxPods}}", maxPods,
	).Replace(kubeletConfig)
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return err
	}
	p, err := h.Run("kubelet", h.Command(context.WithoutCancel(ctx), program,
		"--config="+file, "--kubeconfig="+kubeconfig, "--root-dir="+filepath.Join(dir, "root"), "--cert-dir="+filepath.Join(dir, "pki"),
		"--hostname-override="+h.Name(), "--node-ip="+h.Address().String(), "--v=2"))
	if err != nil {
		return err
	}
	n.Processes = append(n.Processes, p)
	return nil
}
