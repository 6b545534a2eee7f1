// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
)

const (
	runtimeRemedy = "see systemctl status containerd and journalctl -u containerd on the host"
	disabledCRI   = "take cri out of disabled_plugins in /etc/containerd/config.toml on the host, and restart containerd"
	networkRemedy = "put a network configuration into /etc/cni/net.d and the plugins that it names into /opt/cni/bin on the host; until then only pods with hostNetwork run"
)

// testedRuntime and testedMajor are the runtime that Tombolo is tested with.
const (
	testedRuntime = "containerd"
	testedMajor   = "2."
)

func judgeRuntime(o *Observed) []Finding {
	if o.LinkErr != nil {
		const why = "the container runtime is not reached"
		return []Finding{skipped(checkRuntime, why), skipped(checkImages, why), skipped(checkNetwork, why)}
	}
	if o.RuntimeErr != nil {
		remedy := runtimeRemedy
		if errdefs.IsNotImplemented(o.RuntimeErr) {
			remedy = disabledCRI
		}
		return []Finding{
			failed(checkRuntime, fmt.Sprintf("the container runtime does not answer: %v", o.RuntimeErr), remedy),
			skipped(checkImages, "the container runtime does not answer"), skipped(checkNetwork, "the container runtime does not answer"),
		}
	}
	findings := []Finding{judgeRuntimeVersion(o.Runtime)}
	if o.StatusErr != nil {
		findings = append(findings, failed(checkRuntime, fmt.Sprintf("the container runtime does not tell its state: %v", o.StatusErr), runtimeRemedy))
	} else if problem := condition(o.Status, runtimeapi.RuntimeReady); problem != "" {
		findings = append(findings, failed(checkRuntime, "the container runtime is not ready: "+problem, runtimeRemedy))
	}
	if o.ImagesErr != nil {
		findings = append(findings, failed(checkImages, fmt.Sprintf("the image service does not answer: %v", o.ImagesErr), runtimeRemedy))
	} else {
		findings = append(findings, ok(checkImages, "the image service answers"))
	}
	switch problem := condition(o.Status, runtimeapi.NetworkReady); {
	case o.StatusErr != nil:
		findings = append(findings, skipped(checkNetwork, "the container runtime does not tell its state"))
	case problem != "":
		findings = append(findings, failed(checkNetwork, "pods get no network: "+problem, networkRemedy))
	default:
		findings = append(findings, ok(checkNetwork, "the runtime has a pod network (CNI)"))
	}
	return findings
}

func judgeRuntimeVersion(v *runtimeapi.VersionResponse) Finding {
	message := fmt.Sprintf("%s %s speaks CRI %s", v.GetRuntimeName(), v.GetRuntimeVersion(), v.GetRuntimeApiVersion())
	if v.GetRuntimeName() != testedRuntime || !strings.HasPrefix(strings.TrimPrefix(v.GetRuntimeVersion(), "v"), testedMajor) {
		return warning(checkRuntime, message, "Tombolo is tested with containerd 2.x: others may do, without a promise")
	}
	return ok(checkRuntime, message)
}

// condition says why a condition of the runtime does not hold, "" if it does.
func condition(status *runtimeapi.StatusResponse, kind string) string {
	for _, c := range status.GetStatus().GetConditions() {
		if c.GetType() != kind {
			continue
		}
		if c.GetStatus() {
			return ""
		}
		return strings.TrimSpace(c.GetReason() + " " + c.GetMessage())
	}
	return "the runtime does not report " + kind
}

// Controllers that limit what pods take, and those for what few pods ask for.
var (
	neededControllers = []string{"cpu", "memory", "pids"}
	usefulControllers = []string{"cpuset", "hugetlb", "io"}
)

func judgeCgroups(f *host.Facts) []Finding {
	const boot = "turn them on at boot (on a Raspberry Pi: cgroup_enable=memory cgroup_memory=1 in cmdline.txt) and see that systemd delegates them"
	var findings []Finding
	if f.CgroupVersion != 2 {
		findings = append(findings, warning(checkCgroups, fmt.Sprintf("control groups of version %d", f.CgroupVersion),
			"boot with systemd.unified_cgroup_hierarchy=1: version 1 has no memory protection and no orderly limit of swap, and Kubernetes gives it up"))
	}
	if f.CgroupDriver == "" {
		findings = append(findings, warning(checkCgroups, "the container runtime does not tell its cgroup driver, so pods get no control group of their own",
			"update containerd on the host to 2.x, or see the runtime above"))
	}
	missing := func(names []string) (out []string) {
		for _, name := range names {
			if name == "io" && f.CgroupVersion != 2 {
				name = "blkio"
			}
			if !slices.Contains(f.Controllers, name) {
				out = append(out, name)
			}
		}
		return out
	}
	switch needed, useful := missing(neededControllers), missing(usefulControllers); {
	case len(f.Controllers) == 0:
		findings = append(findings, warning(checkCgroups, "the host does not tell its cgroup controllers", "update tombolo on the host"))
	case len(needed) > 0:
		findings = append(findings, failed(checkCgroups, "no cgroup controllers "+strings.Join(needed, ", ")+": limits of pods cannot hold", boot))
	case len(useful) > 0:
		findings = append(findings, warning(checkCgroups, "no cgroup controllers "+strings.Join(useful, ", ")+": few pods need them", boot))
	}
	if len(findings) == 0 {
		findings = append(findings, ok(checkCgroups, fmt.Sprintf("version 2, driver %s, controllers %s", f.CgroupDriver, strings.Join(f.Controllers, " "))))
	}
	return findings
}

// filesystems are those that matter, with what the kubelet wants free of them before it says DiskPressure.
var filesystems = []struct {
	purpose string
	what    string
	free    float64
}{
	{"nodefs", "of pods and volumes", 0.10},
	{"imagefs", "of images", 0.15},
}

const (
	freeInodes = 0.05
	// headroom is how much more than that should be free.
	headroom = 0.05
)

func judgeDisk(f *host.Facts) []Finding {
	var findings []Finding
	for _, each := range filesystems {
		i := slices.IndexFunc(f.Filesystems, func(fs host.Filesystem) bool { return fs.Purpose == each.purpose && fs.CapacityBytes > 0 })
		if i < 0 {
			findings = append(findings, warning(checkDisk, "the file system "+each.what+" cannot be measured", "see the runtime above, and the log of tombolo host"))
			continue
		}
		findings = append(findings, judgeFilesystem(f.Filesystems[i], each.what, each.free))
	}
	return findings
}

func judgeFilesystem(fs host.Filesystem, what string, need float64) Finding {
	space, inodes := share(fs.AvailableBytes, fs.CapacityBytes), share(fs.InodesAvailable, fs.Inodes)
	message := fmt.Sprintf("the file system %s (%s) has %.1f GiB of %.1f GiB free (%.0f%%) and %.0f%% of its inodes",
		what, fs.Path, gib(fs.AvailableBytes), gib(fs.CapacityBytes), 100*space, 100*inodes)
	remedy := fmt.Sprintf("free space on the host: with less than %.0f%%, or %.0f%% of the inodes, the node says DiskPressure and takes no pods", 100*need, 100*freeInodes)
	switch {
	case space < need || inodes < freeInodes:
		return failed(checkDisk, message, remedy)
	case space < need+headroom || inodes < freeInodes+headroom:
		return warning(checkDisk, message, remedy)
	default:
		return ok(checkDisk, message)
	}
}

// share is how much of a total there is. A total of zero is no limit.
func share(part, total uint64) float64 {
	if total == 0 {
		return 1
	}
	return float64(part) / float64(total)
}

func gib(bytes uint64) float64 { return float64(bytes) / (1 << 30) }
