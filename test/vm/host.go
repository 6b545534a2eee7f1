// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/tombolo-dev/tombolo/test/images"
)

// containerdConfig is that of a machine with systemd: it makes the control groups. What it does not say is containerd's default.
const containerdConfig = `version = 4

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
    SystemdCgroup = true

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "` + images.Pause + `"
`

// containerdUnit is containerd as a service, with the settings that containers need to outlive it.
const containerdUnit = `[Unit]
Description=containerd
After=network.target

[Service]
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNOFILE=1048576
TasksMax=infinity
OOMScoreAdjust=-999

[Install]
WantedBy=multi-user.target
`

// imagesFile is where the machine has the archive of the test images.
const imagesFile = payloadDir + "/images.tar"

// containerdFiles are those of a machine that runs containerd: the parts from the folder bin, their configuration, and a network
// for pods. What is read-only appears below payloadDir.
func containerdFiles(bin, archive string, pods netip.Prefix) (files, readOnly []File, err error) {
	network, err := podNetwork(pods)
	if err != nil {
		return nil, nil, err
	}
	files = []File{
		// A machine without one takes this start for its first and enables every service there is.
		{Path: "/etc/machine-id", Data: machineID(pods) + "\n"},
		{Path: "/etc/containerd/config.toml", Data: containerdConfig},
		{Path: "/etc/systemd/system/containerd.service", Data: containerdUnit},
		{Path: "/etc/systemd/system/multi-user.target.wants/containerd.service", Link: "/etc/systemd/system/containerd.service"},
		{Path: "/etc/cni/net.d/10-vm.conflist", Data: network},
		{Path: "/etc/sysctl.d/vm.conf", Data: "net.ipv4.ip_forward = 1\n"},
		{Path: "/etc/crictl.yaml", Data: "runtime-endpoint: unix:///run/containerd/containerd.sock\ntimeout: 120\n"},
	}
	readOnly = []File{{Path: "/images.tar", Source: archive}}
	for dir, programs := range map[string][]string{
		"/usr/local/bin": {"containerd", "containerd-shim-runc-v2", "ctr", "runc", "crictl"},
		"/opt/cni/bin":   {"bridge", "host-local", "loopback", "portmap"},
	} {
		for _, name := range programs {
			files = append(files, File{Path: filepath.Join(dir, name), Link: filepath.Join(payloadDir, "bin", name)})
			readOnly = append(readOnly, File{Path: "/bin/" + name, Mode: 0o755, Source: filepath.Join(bin, name)})
		}
	}
	return files, readOnly, nil
}

// machineID is 32 hexadecimal digits that no other machine on the network of the hosts has.
func machineID(pods netip.Prefix) string {
	sum := sha256.Sum256([]byte(pods.String()))
	return hex.EncodeToString(sum[:16])
}

// podNetwork is the network of the machine's pods: a bridge behind the machine's address.
func podNetwork(pods netip.Prefix) (string, error) {
	type object = map[string]any
	network, err := json.MarshalIndent(object{
		"cniVersion": "1.0.0",
		"name":       "vm",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": object{
					"type": "host-local", "ranges": [][]object{{{"subnet": pods.String()}}}, "routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return "", fmt.Errorf("configuring the pod network: %w", err)
	}
	return string(network), nil
}
