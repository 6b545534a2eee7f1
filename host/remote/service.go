// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// service serves a host.Host. Errors become statuses here.
type service struct {
	factsService
	host   host.Host
	guard  guard
	relays *sync.WaitGroup
}

var _ hostpb.HostServiceServer = (*service)(nil)

func (s *service) EnsurePod(ctx context.Context, r *hostpb.EnsurePodRequest) (*hostpb.EnsurePodResponse, error) {
	err := s.host.EnsurePod(ctx, podFromWire(r.GetPod()), r.GetContainers())
	return &hostpb.EnsurePodResponse{}, toStatus(err)
}

func (s *service) EnsureVolume(ctx context.Context, r *hostpb.EnsureVolumeRequest) (*hostpb.EnsureVolumeResponse, error) {
	volume, err := volumeFromWire(r)
	if err != nil {
		return nil, toStatus(err)
	}
	if volume, err = s.guard.volume(r.GetUid(), volume); err != nil {
		return nil, err
	}
	made, err := s.host.EnsureVolume(ctx, types.UID(r.GetUid()), volume)
	return &hostpb.EnsureVolumeResponse{Path: made.Path, OtherGroup: made.OtherGroup, Mounted: made.Mounted}, toStatus(err)
}

func (s *service) WriteFiles(ctx context.Context, r *hostpb.WriteFilesRequest) (*hostpb.WriteFilesResponse, error) {
	set, err := fileSetFromWire(r)
	if err != nil {
		return nil, toStatus(err)
	}
	path, err := s.host.WriteFiles(ctx, types.UID(r.GetUid()), set)
	return &hostpb.WriteFilesResponse{Path: path}, toStatus(err)
}

func (s *service) EnsureSubPath(ctx context.Context, r *hostpb.EnsureSubPathRequest) (*hostpb.EnsureSubPathResponse, error) {
	part, err := subPathFromWire(r)
	if err != nil {
		return nil, toStatus(err)
	}
	if part.Kind == "" { // a part that is missing is made, and nothing tells later whether it is mounted for writing
		whole := host.Volume{Name: part.Volume, HostPath: part.HostPath, HostPathType: "DirectoryOrCreate"}
		judged, err := s.guard.volume(r.GetUid(), whole)
		if err != nil {
			return nil, err
		}
		part.HostPath, part.NoLinks = judged.HostPath, judged.NoLinks
	}
	path, err := s.host.EnsureSubPath(ctx, types.UID(r.GetUid()), part)
	return &hostpb.EnsureSubPathResponse{Path: path}, toStatus(err)
}

func (s *service) ReadVolumeFile(ctx context.Context, r *hostpb.ReadVolumeFileRequest) (*hostpb.ReadVolumeFileResponse, error) {
	file, err := volumeFileFromWire(r)
	if err != nil {
		return nil, toStatus(err)
	}
	data, err := s.host.ReadVolumeFile(ctx, types.UID(r.GetUid()), file)
	return &hostpb.ReadVolumeFileResponse{Data: data}, toStatus(err)
}

func (s *service) EnsureTerminationLog(ctx context.Context, r *hostpb.EnsureTerminationLogRequest) (*hostpb.EnsureTerminationLogResponse, error) {
	path, err := s.host.EnsureTerminationLog(ctx, types.UID(r.GetUid()), r.GetContainer(), r.GetRestartCount())
	return &hostpb.EnsureTerminationLogResponse{Path: path}, toStatus(err)
}

func (s *service) EnsurePodCgroup(ctx context.Context, r *hostpb.EnsurePodCgroupRequest) (*hostpb.EnsurePodCgroupResponse, error) {
	parent, err := s.host.EnsurePodCgroup(ctx, cgroupFromWire(r))
	return &hostpb.EnsurePodCgroupResponse{Parent: parent}, toStatus(err)
}

func (s *service) SetCgroupTiers(ctx context.Context, r *hostpb.SetCgroupTiersRequest) (*hostpb.SetCgroupTiersResponse, error) {
	return &hostpb.SetCgroupTiersResponse{}, toStatus(s.host.SetCgroupTiers(ctx, r.GetBurstableCpuShares()))
}

func (s *service) EnsureIDRange(ctx context.Context, r *hostpb.EnsureIDRangeRequest) (*hostpb.EnsureIDRangeResponse, error) {
	ids, err := s.host.EnsureIDRange(ctx, types.UID(r.GetUid()))
	return &hostpb.EnsureIDRangeResponse{First: ids.First, Length: ids.Length}, toStatus(err)
}

func (s *service) EnsureHostsFile(ctx context.Context, r *hostpb.EnsureHostsFileRequest) (*hostpb.EnsureHostsFileResponse, error) {
	path, err := s.host.EnsureHostsFile(ctx, types.UID(r.GetUid()), r.GetContent())
	return &hostpb.EnsureHostsFileResponse{Path: path}, toStatus(err)
}

func (s *service) RemovePod(ctx context.Context, r *hostpb.RemovePodRequest) (*hostpb.RemovePodResponse, error) {
	err := s.host.RemovePod(ctx, types.UID(r.GetUid()), r.GetRemoveLogs())
	return &hostpb.RemovePodResponse{}, toStatus(err)
}

func (s *service) ListPods(ctx context.Context, _ *hostpb.ListPodsRequest) (*hostpb.ListPodsResponse, error) {
	uids, err := s.host.ListPods(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	out := &hostpb.ListPodsResponse{Uids: make([]string, 0, len(uids))}
	for _, uid := range uids {
		out.Uids = append(out.Uids, string(uid))
	}
	return out, nil
}

func (s *service) ListImageRecords(ctx context.Context, _ *hostpb.ListImageRecordsRequest) (*hostpb.ListImageRecordsResponse, error) {
	records, err := s.host.ListImageRecords(ctx)
	if err != nil {
		return nil, toStatus(err)
	}
	out := &hostpb.ListImageRecordsResponse{Records: make([]*hostpb.ImageRecord, 0, len(records))}
	for _, r := range records {
		out.Records = append(out.Records, &hostpb.ImageRecord{Key: r.Key, Content: r.Content})
	}
	return out, nil
}

func (s *service) PutImageRecord(ctx context.Context, r *hostpb.PutImageRecordRequest) (*hostpb.PutImageRecordResponse, error) {
	err := s.host.PutImageRecord(ctx, host.ImageRecord{Key: r.GetRecord().GetKey(), Content: r.GetRecord().GetContent()})
	return &hostpb.PutImageRecordResponse{}, toStatus(err)
}

func (s *service) ReadTail(ctx context.Context, r *hostpb.ReadTailRequest) (*hostpb.ReadTailResponse, error) {
	data, err := s.host.ReadTail(ctx, r.GetPath(), r.GetLimit())
	return &hostpb.ReadTailResponse{Data: data}, toStatus(err)
}

func (s *service) RestartCount(ctx context.Context, r *hostpb.RestartCountRequest) (*hostpb.RestartCountResponse, error) {
	count, err := s.host.RestartCount(ctx, podFromWire(r.GetPod()), r.GetContainer())
	return &hostpb.RestartCountResponse{RestartCount: count}, toStatus(err)
}

func (s *service) RemoveLogs(ctx context.Context, r *hostpb.RemoveLogsRequest) (*hostpb.RemoveLogsResponse, error) {
	err := s.host.RemoveLogs(ctx, r.GetPath())
	return &hostpb.RemoveLogsResponse{}, toStatus(err)
}
