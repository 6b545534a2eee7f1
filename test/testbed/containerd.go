// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/test/images"
)

// containerdConfig keeps all of containerd in the host's folder and otherwise differs from the defaults only where this
// environment asks for it.
const containerdConfig = `version = 4
root = "{{.Dir}}/containerd/root"
state = "{{.Dir}}/containerd/state"
imports = []

[plugins.'io.containerd.server.v1.grpc']
  address = "{{.Dir}}/containerd.sock"

[plugins.'io.containerd.server.v1.ttrpc']
  address = "{{.Dir}}/containerd.sock.ttrpc"

[plugins.'io.containerd.internal.v1.opt']
  path = "{{.Dir}}/containerd/opt"

[plugins.'io.containerd.cri.v1.runtime']
  # A machine may lack CAP_SYS_RESOURCE; without it runc cannot lower oom_score_adj and no sandbox starts.
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true

  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["{{.Bin}}"]
    conf_dir = "{{.Dir}}/cni/net.d"

  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = "{{.Bin}}/runc"
      SystemdCgroup = false

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = "{{.Pause}}"

[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = "{{.Dir}}/registries"
`

// registryConfig has containerd ask a registry of the test's for images of registry.k8s.io.
const registryConfig = `server = "https://registry.k8s.io"

[host."{{.Registry}}"]
  capabilities = ["pull", "resolve"]
`

// writeRegistryConfig tells containerd of the registry at the URL.
func (h *Host) writeRegistryConfig(url string) error {
	file := filepath.Join(h.Dir(), "registries", "registry.k8s.io", "hosts.toml")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("configuring the registry: %w", err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(registryConfig, "{{.Registry}}", url)), 0o644); err != nil {
		return fmt.Errorf("configuring the registry: %w", err)
	}
	return nil
}

// cniNetwork is the network of a host's pods: a bridge behind the host's address, as most single hosts have it.
func (h *Host) cniNetwork() ([]byte, error) {
	type object = map[string]any
	return json.MarshalIndent(object{
		"cniVersion": "1.0.0",
		"name":       "testbed",
		"plugins": []object{
			{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": object{
					"type": "host-local", "dataDir": filepath.Join(h.Dir(), "cni", "state"),
					"ranges": [][]object{{{"subnet": h.PodCIDR().String()}}},
					"routes": []object{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": object{"portMappings": true}},
		},
	}, "", "  ")
}

func (h *Host) writeContainerdConfig() (string, error) {
	// Root of a pod's own user namespace, who is somebody else here, gets to its files this way; containerd would close it.
	if err := os.MkdirAll(filepath.Join(h.Dir(), "containerd"), 0o711); err != nil {
		return "", fmt.Errorf("configuring containerd: %w", err)
	}
	network, err := h.cniNetwork()
	if err != nil {
		return "", fmt.Errorf("configuring the pod network: %w", err)
	}
	file := filepath.Join(h.Dir(), "cni", "net.d", "10-testbed.conflist")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return "", fmt.Errorf("configuring the pod network: %w", err)
	}
	if err := os.WriteFile(file, network, 0o644); err != nil {
		return "", fmt.Errorf("configuring the pod network: %w", err)
	}
	config := strings.NewReplacer("{{.Dir}}", h.Dir(), "{{.Bin}}", h.cluster.Bin(), "{{.Pause}}", images.Pause).Replace(containerdConfig)
	file = filepath.Join(h.Dir(), "containerd.toml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return "", fmt.Errorf("configuring containerd: %w", err)
	}
	return file, nil
}

func (h *Host) containerdName() string { return h.name + "-containerd" }

// StartContainerd starts containerd and returns when it answers CRI requests. It is an error if it runs.
func (h *Host) StartContainerd(ctx context.Context) error {
	if _, running := h.containerd(); running {
		return fmt.Errorf("starting containerd on %s: it runs already", h.name)
	}
	config, err := h.writeContainerdConfig()
	if err != nil {
		return err
	}
	p, err := h.Run("containerd", h.Command(context.WithoutCancel(ctx), "containerd", "--config", config))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	last := error(nil)
	err = poll(ctx, func() bool {
		last = h.withCRI(func(conn grpc.ClientConnInterface) error {
			_, err := runtimeapi.NewRuntimeServiceClient(conn).Version(ctx, &runtimeapi.VersionRequest{})
			return err
		})
		return last == nil || !p.record.alive()
	})
	if err != nil || last != nil {
		return p.failure(fmt.Sprintf("did not answer in %s (%v)", readyTimeout, last))
	}
	return nil
}

// containerd returns the running containerd.
func (h *Host) containerd() (recorded, bool) {
	processes := h.cluster.store.get().Processes
	i := slices.IndexFunc(processes, func(p recorded) bool { return p.Name == h.containerdName() && p.alive() })
	if i < 0 {
		return recorded{}, false
	}
	return processes[i], true
}

// StopContainerd sends containerd SIGTERM and returns when it has ended. Containers go on. Nothing happens if it does not run.
func (h *Host) StopContainerd(ctx context.Context) error {
	p, running := h.containerd()
	if !running {
		return nil
	}
	if err := p.stop(ctx); err != nil {
		return err
	}
	return h.cluster.store.removeProcess(p)
}

// KillContainerd sends containerd SIGKILL and returns when it is gone. Containers go on.
func (h *Host) KillContainerd() error {
	p, running := h.containerd()
	if !running {
		return nil
	}
	if err := p.kill(); err != nil {
		return err
	}
	return h.cluster.store.removeProcess(p)
}

// Crictl runs crictl on the host.
func (h *Host) Crictl(ctx context.Context, args ...string) (string, error) {
	return h.Exec(ctx, "crictl", args...)
}

// importImages gives the host the test images and returns when CRI knows them, which is a moment after the import.
func (h *Host) importImages(ctx context.Context) error {
	archive, err := h.cluster.ImageArchive(ctx)
	if err != nil {
		return err
	}
	if _, err := h.Exec(ctx, "ctr", "--namespace", "k8s.io", "images", "import", archive); err != nil {
		return fmt.Errorf("importing images: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return h.withCRI(func(conn grpc.ClientConnInterface) error {
		client := runtimeapi.NewImageServiceClient(conn)
		for _, name := range []string{images.Pause, images.Busybox, images.Agnhost} {
			err := poll(ctx, func() bool {
				status, err := client.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: &runtimeapi.ImageSpec{Image: name}})
				return err == nil && status.GetImage() != nil
			})
			if err != nil {
				return fmt.Errorf("importing images: CRI does not list %s: %w", name, err)
			}
		}
		return nil
	})
}

// ImageArchive returns the path of the archive with the images of the hosts, assembling it the first time.
func (c *Cluster) ImageArchive(ctx context.Context) (string, error) {
	c.archiveMu.Lock()
	defer c.archiveMu.Unlock()
	if c.archive != "" {
		return c.archive, nil
	}
	begin := time.Now()
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	if c.archive, err = images.Archive(ctx, c.opts.Images, c.Bin(), cache); err != nil {
		return "", err
	}
	c.progress("images", begin)
	return c.archive, nil
}

// withCRI calls use with a connection to the host's containerd.
func (h *Host) withCRI(use func(grpc.ClientConnInterface) error) error {
	conn, err := grpc.NewClient("unix://"+h.ContainerdSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to containerd of %s: %w", h.name, err)
	}
	defer conn.Close()
	return use(conn)
}
