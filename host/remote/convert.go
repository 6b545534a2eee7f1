// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

func factsToWire(f *host.Facts) *hostpb.FactsResponse {
	out := &hostpb.FactsResponse{
		MachineId:            f.MachineID,
		SystemUuid:           f.SystemUUID,
		BootId:               f.BootID,
		Hostname:             f.Hostname,
		Os:                   f.OS,
		Architecture:         f.Architecture,
		KernelVersion:        f.KernelVersion,
		OsImage:              f.OSImage,
		Cpus:                 int32(f.CPUs), //nolint:gosec // no machine has 2^31 processors
		MemoryBytes:          f.MemoryBytes,
		MemoryAvailableBytes: f.MemoryAvailable,
		SwapBytes:            f.SwapBytes,
		PidMax:               f.PIDMax,
		PidsRunning:          f.PIDsRunning,
		Clock:                timeToWire(f.Clock),
		CgroupVersion:        int32(f.CgroupVersion), //nolint:gosec // 1 or 2
		CgroupDriver:         f.CgroupDriver,
		Addresses:            f.Addresses,
		ResolvConf:           f.ResolvConf,
		Hosts:                f.Hosts,
		RootDir:              f.RootDir,
		PodLogsDir:           f.PodLogsDir,
		Version:              f.Version,
		AppArmor:             f.AppArmor,
		SwapControl:          f.SwapControl,
		Controllers:          f.Controllers,
	}
	for _, pages := range f.HugePages {
		out.HugePages = append(out.HugePages, &hostpb.HugePages{PageBytes: pages.PageBytes, Count: pages.Count})
	}
	for _, fs := range f.Filesystems {
		out.Filesystems = append(out.Filesystems, &hostpb.Filesystem{
			Purpose:         fs.Purpose,
			Path:            fs.Path,
			CapacityBytes:   fs.CapacityBytes,
			AvailableBytes:  fs.AvailableBytes,
			Inodes:          fs.Inodes,
			InodesAvailable: fs.InodesAvailable,
		})
	}
	return out
}

func factsFromWire(f *hostpb.FactsResponse) *host.Facts {
	out := &host.Facts{
		MachineID:       f.GetMachineId(),
		SystemUUID:      f.GetSystemUuid(),
		BootID:          f.GetBootId(),
		Hostname:        f.GetHostname(),
		OS:              f.GetOs(),
		Architecture:    f.GetArchitecture(),
		KernelVersion:   f.GetKernelVersion(),
		OSImage:         f.GetOsImage(),
		CPUs:            int(f.GetCpus()),
		MemoryBytes:     f.GetMemoryBytes(),
		MemoryAvailable: f.GetMemoryAvailableBytes(),
		SwapBytes:       f.GetSwapBytes(),
		PIDMax:          f.GetPidMax(),
		PIDsRunning:     f.GetPidsRunning(),
		Clock:           timeFromWire(f.GetClock()),
		CgroupVersion:   int(f.GetCgroupVersion()),
		CgroupDriver:    f.GetCgroupDriver(),
		Addresses:       f.GetAddresses(),
		ResolvConf:      f.GetResolvConf(),
		Hosts:           f.GetHosts(),
		RootDir:         f.GetRootDir(),
		PodLogsDir:      f.GetPodLogsDir(),
		AppArmor:        f.GetAppArmor(),
		SwapControl:     f.GetSwapControl(),
		Controllers:     f.GetControllers(),
		Version:         f.GetVersion(),
	}
	for _, pages := range f.GetHugePages() {
		out.HugePages = append(out.HugePages, host.HugePages{PageBytes: pages.GetPageBytes(), Count: pages.GetCount()})
	}
	for _, fs := range f.GetFilesystems() {
		out.Filesystems = append(out.Filesystems, host.Filesystem{
			Purpose:         fs.GetPurpose(),
			Path:            fs.GetPath(),
			CapacityBytes:   fs.GetCapacityBytes(),
			AvailableBytes:  fs.GetAvailableBytes(),
			Inodes:          fs.GetInodes(),
			InodesAvailable: fs.GetInodesAvailable(),
		})
	}
	return out
}

func podToWire(p host.Pod) *hostpb.Pod {
	return &hostpb.Pod{Uid: string(p.UID), Namespace: p.Namespace, Name: p.Name}
}

func podFromWire(p *hostpb.Pod) host.Pod {
	return host.Pod{UID: types.UID(p.GetUid()), Namespace: p.GetNamespace(), Name: p.GetName()}
}

func cgroupToWire(pod host.PodCgroup) *hostpb.EnsurePodCgroupRequest {
	out := &hostpb.EnsurePodCgroupRequest{
		Uid: string(pod.UID), QosClass: string(pod.Class), CpuShares: pod.Resources.CPUShares, CpuQuota: pod.Resources.CPUQuota,
		MemoryBytes: pod.Resources.MemoryBytes, Pids: pod.Resources.PIDs,
	}
	for _, limit := range pod.Resources.HugePages {
		out.HugePages = append(out.HugePages, &hostpb.HugePageLimit{PageBytes: limit.PageBytes, Bytes: limit.Bytes})
	}
	return out
}

func cgroupFromWire(r *hostpb.EnsurePodCgroupRequest) host.PodCgroup {
	out := host.PodCgroup{
		UID: types.UID(r.GetUid()), Class: v1.PodQOSClass(r.GetQosClass()),
		Resources: host.CgroupResources{
			CPUShares: r.GetCpuShares(), CPUQuota: r.GetCpuQuota(), MemoryBytes: r.GetMemoryBytes(), PIDs: r.GetPids(),
		},
	}
	for _, limit := range r.GetHugePages() {
		out.Resources.HugePages = append(out.Resources.HugePages, host.HugePageLimit{PageBytes: limit.GetPageBytes(), Bytes: limit.GetBytes()})
	}
	return out
}

// timeToWire keeps the zero time absent.
func timeToWire(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFromWire(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}
