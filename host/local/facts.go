// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// runtimeFactsTimeout bounds each question to the runtime: facts are told without its answer rather than late.
const runtimeFactsTimeout = 3 * time.Second

// maxFactBytes bounds what is read of one file.
const maxFactBytes = 1 << 20

// Purposes of file systems, in the kubelet's words.
const (
	purposeNode  = "nodefs"
	purposeImage = "imagefs"
)

// Facts reads the facts of the machine anew.
func (h *Host) Facts(ctx context.Context) (*host.Facts, error) {
	memory := parseMeminfo(h.read("proc/meminfo"))
	facts := &host.Facts{
		MachineID:       h.readFirst("etc/machine-id", "var/lib/dbus/machine-id"),
		SystemUUID:      h.readFirst("sys/class/dmi/id/product_uuid", "proc/device-tree/vm,uuid"),
		BootID:          h.readFirst("proc/sys/kernel/random/boot_id"),
		Hostname:        h.readFirst("proc/sys/kernel/hostname"),
		OS:              runtime.GOOS,
		Architecture:    runtime.GOARCH,
		KernelVersion:   h.readFirst("proc/sys/kernel/osrelease"),
		OSImage:         h.osImage(),
		CPUs:            h.cpus(),
		MemoryBytes:     memory["MemTotal"],
		MemoryAvailable: memory["MemAvailable"],
		SwapBytes:       memory["SwapTotal"],
		PIDMax:          h.pidMax(),
		PIDsRunning:     parseLoadavg(h.read("proc/loadavg")),
		Filesystems:     h.filesystems(ctx),
		HugePages:       h.hugePages(),
		SwapControl:     h.swapControl(),
		AppArmor:        h.appArmor(),
		CgroupVersion:   h.cgroupVersion(),
		CgroupDriver:    h.knownCgroupDriver(ctx),
		Controllers:     h.controllers(),
		Addresses:       h.addresses(),
		ResolvConf:      h.readText("etc/resolv.conf"),
		Hosts:           h.readText("etc/hosts"),
		RootDir:         h.rootDir,
		PodLogsDir:      h.logsDir,
		Version:         h.version,
	}
	if facts.SystemUUID == "" {
		facts.SystemUUID = facts.MachineID // as the kubelet does on machines without firmware tables
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	facts.Clock = h.clock.Now()
	return facts, nil
}

// read returns the beginning of a file below the system root, nothing if it cannot be read.
func (h *Host) read(path string) []byte {
	file, err := os.Open(filepath.Join(h.systemRoot, path))
	if err != nil {
		h.logger.Debug("a fact of the machine cannot be read", "error", err)
		return nil
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFactBytes))
	if err != nil {
		h.logger.Debug("a fact of the machine cannot be read", "error", err)
	}
	return data
}

// readText returns the content of a text file, with what is not text replaced: it has to fit a message.
func (h *Host) readText(path string) string {
	return strings.ToValidUTF8(string(h.read(path)), "\uFFFD")
}

// readFirst returns the content of the first file that has any, without white space and zero bytes around it.
func (h *Host) readFirst(paths ...string) string {
	for _, path := range paths {
		if text := strings.Trim(h.readText(path), " \t\r\n\x00"); text != "" {
			return text
		}
	}
	return ""
}

func (h *Host) osImage() string {
	for _, path := range []string{"etc/os-release", "usr/lib/os-release"} {
		if name := parseOSRelease([]byte(h.readText(path))); name != "" {
			return name
		}
	}
	return ""
}

func (h *Host) cpus() int {
	if n := parseCPUList(h.read("sys/devices/system/cpu/online")); n > 0 {
		return n
	}
	return runtime.NumCPU()
}

// pidMax is the smaller of the two limits of the kernel.
func (h *Host) pidMax() uint64 {
	pids, threads := parseUint(h.read("proc/sys/kernel/pid_max")), parseUint(h.read("proc/sys/kernel/threads-max"))
	if threads > 0 && (pids == 0 || threads < pids) {
		return threads
	}
	return pids
}

// appArmor asks as runtimes do.
func (h *Host) appArmor() bool {
	_, err := os.Stat(filepath.Join(h.systemRoot, "sys/kernel/security/apparmor"))
	return err == nil && strings.HasPrefix(h.readText("sys/module/apparmor/parameters/enabled"), "Y")
}

// cgroupVersion is 2 only if the whole hierarchy is unified.
func (h *Host) cgroupVersion() int {
	if _, err := os.Stat(filepath.Join(h.systemRoot, "sys/fs/cgroup/cgroup.controllers")); err == nil {
		return 2
	}
	return 1
}

// controllers are those of the hierarchy, ordered by name.
func (h *Host) controllers() []string {
	if h.cgroupVersion() == 2 {
		return slices.Sorted(strings.FieldsSeq(string(h.read("sys/fs/cgroup/cgroup.controllers"))))
	}
	return parseCgroups(h.read("proc/cgroups"))
}

// hugePages counts those of each size.
func (h *Host) hugePages() []host.HugePages {
	const dir = "sys/kernel/mm/hugepages"
	entries, err := os.ReadDir(filepath.Join(h.systemRoot, dir))
	if err != nil {
		return nil // the kernel has none
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	var out []host.HugePages
	for _, size := range parseHugePageSizes(names) {
		file := fmt.Sprintf("%s/%s%d%s/nr_hugepages", dir, hugePagesPrefix, size/1024, hugePagesSuffix)
		out = append(out, host.HugePages{PageBytes: size, Count: parseUint(h.read(file))})
	}
	return out
}

// swapControl looks for the file that limits swap: the root of the unified hierarchy has none, so our own group is looked at.
func (h *Host) swapControl() bool {
	file := "memory/memory.memsw.limit_in_bytes"
	if h.cgroupVersion() == 2 {
		file = filepath.Join("/", parseOwnCgroup(h.read("proc/self/cgroup")), "memory.swap.max")
	}
	_, err := os.Stat(filepath.Join(h.systemRoot, "sys/fs/cgroup", file))
	return err == nil
}

func (h *Host) knownCgroupDriver(ctx context.Context) string {
	driver, err := h.cgroupDriver(ctx)
	if err != nil {
		h.logger.Debug("the cgroup driver is not known", "error", err)
	}
	return driver
}

// cgroupDriver asks the runtime which one it uses. It is NotImplemented by runtimes that do not tell.
func (h *Host) cgroupDriver(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runtimeFactsTimeout)
	defer cancel()
	config, err := h.runtime.RuntimeConfig(ctx)
	if err != nil {
		return "", fmt.Errorf("asking the runtime for its cgroup driver: %w", err)
	}
	if config.GetLinux() == nil {
		return "", fmt.Errorf("the runtime tells no cgroup driver: %w", errdefs.ErrNotImplemented)
	}
	return strings.ToLower(config.GetLinux().GetCgroupDriver().String()), nil
}

// filesystems returns that of the root directory and that of the runtime's images.
func (h *Host) filesystems(ctx context.Context) []host.Filesystem {
	var out []host.Filesystem
	for _, each := range []struct{ purpose, path string }{{purposeNode, existing(h.rootDir)}, {purposeImage, h.imagePath(ctx)}} {
		if each.path == "" {
			continue
		}
		stat, err := statFilesystem(each.purpose, each.path)
		if err != nil {
			h.logger.Debug("a file system cannot be measured", "purpose", each.purpose, "error", err)
			continue
		}
		out = append(out, stat)
	}
	return out
}

// existing is the path, or what there is of the way to it: only a reader may find that it was not made yet.
func existing(path string) string {
	for path != "/" {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		path = filepath.Dir(path)
	}
	return path
}

func (h *Host) imagePath(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, runtimeFactsTimeout)
	defer cancel()
	info, err := h.runtime.ImageFsInfo(ctx)
	if err != nil {
		h.logger.Debug("the runtime does not tell where its images are", "error", err)
		return ""
	}
	return firstMountpoint(info)
}

func firstMountpoint(info *runtimeapi.ImageFsInfoResponse) string {
	for _, fs := range info.GetImageFilesystems() {
		if path := fs.GetFsId().GetMountpoint(); path != "" {
			return path
		}
	}
	return ""
}

func statFilesystem(purpose, path string) (host.Filesystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return host.Filesystem{}, fmt.Errorf("measuring the file system of %s: %w", path, err)
	}
	size := uint64(st.Frsize) //nolint:gosec // the kernel's block size is positive
	return host.Filesystem{
		Purpose:         purpose,
		Path:            path,
		CapacityBytes:   st.Blocks * size,
		AvailableBytes:  st.Bavail * size,
		Inodes:          st.Files,
		InodesAvailable: st.Ffree,
	}, nil
}
