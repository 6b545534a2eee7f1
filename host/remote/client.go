// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// callTimeout bounds calls that take no time of their own on the host.
const callTimeout = 30 * time.Second

// writeTimeout bounds writing a volume, whose files may have to come over a slow link.
const writeTimeout = 2 * time.Minute

// localTimeout bounds giving a volume to a group. The next call goes on where one was cut short.
const localTimeout = 2 * time.Minute

// measureTimeout bounds looking at all files of a pod.
const measureTimeout = 2 * time.Minute

// removeTimeout bounds the removal of a pod's directory, which may hold very many files.
const removeTimeout = 2 * time.Minute

// answerSlack is how much longer than the time of its own that a hook or a probe has the answer may take.
const answerSlack = 15 * time.Second

// ClientOptions are what a client needs besides its connection.
type ClientOptions struct {
	// Clock times the deadlines of byte streams. The real clock if nil.
	Clock clock.WithDelayedExecution
}

// client is a host at the other end of a connection.
type client struct {
	host  hostpb.HostServiceClient
	clock clock.WithDelayedExecution
}

var _ host.Host = (*client)(nil)

// NewClient returns the host that serves at the other end of conn. The connection stays the caller's to close. Methods
// that were called while it could not be reached fail as Unavailable.
func NewClient(conn grpc.ClientConnInterface, o ClientOptions) host.Host {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &client{host: hostpb.NewHostServiceClient(conn), clock: o.Clock}
}

// call makes one unary call within timeout; noDeadline leaves its end to ctx.
func call[Req, Resp any](ctx context.Context, timeout time.Duration, rpc func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req) (Resp, error) {
	callCtx := ctx
	if timeout > noDeadline {
		var cancel context.CancelFunc
		callCtx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	resp, err := rpc(callCtx, req)
	return resp, toNative(ctx, err)
}

func (c *client) Facts(ctx context.Context) (*host.Facts, error) {
	resp, err := call(ctx, callTimeout, c.host.Facts, &hostpb.FactsRequest{})
	if err != nil {
		return nil, err
	}
	return factsFromWire(resp), nil
}

func (c *client) EnsurePod(ctx context.Context, pod host.Pod, containers []string) error {
	_, err := call(ctx, callTimeout, c.host.EnsurePod, &hostpb.EnsurePodRequest{Pod: podToWire(pod), Containers: containers})
	return err
}

func (c *client) EnsureVolume(ctx context.Context, uid types.UID, volume host.Volume) (host.ReadyVolume, error) {
	timeout := callTimeout
	if volume.Local != nil {
		timeout = localTimeout
	}
	resp, err := call(ctx, timeout, c.host.EnsureVolume, volumeToWire(uid, volume))
	if err != nil {
		return host.ReadyVolume{}, err
	}
	return host.ReadyVolume{Path: resp.GetPath(), OtherGroup: resp.OtherGroup, Mounted: resp.GetMounted()}, nil
}

func (c *client) ReadVolumeFile(ctx context.Context, uid types.UID, file host.VolumeFile) ([]byte, error) {
	resp, err := call(ctx, callTimeout, c.host.ReadVolumeFile, volumeFileToWire(uid, file))
	return resp.GetData(), err
}

func (c *client) WriteFiles(ctx context.Context, uid types.UID, set host.FileSet) (string, error) {
	resp, err := call(ctx, writeTimeout, c.host.WriteFiles, fileSetToWire(uid, set))
	return resp.GetPath(), err
}

func (c *client) EnsureSubPath(ctx context.Context, uid types.UID, part host.SubPath) (string, error) {
	resp, err := call(ctx, callTimeout, c.host.EnsureSubPath, subPathToWire(uid, part))
	return resp.GetPath(), err
}

func (c *client) EnsureTerminationLog(ctx context.Context, uid types.UID, container string, restartCount int32) (string, error) {
	resp, err := call(ctx, callTimeout, c.host.EnsureTerminationLog, &hostpb.EnsureTerminationLogRequest{
		Uid: string(uid), Container: container, RestartCount: restartCount})
	return resp.GetPath(), err
}

func (c *client) EnsurePodCgroup(ctx context.Context, pod host.PodCgroup) (string, error) {
	resp, err := call(ctx, callTimeout, c.host.EnsurePodCgroup, cgroupToWire(pod))
	return resp.GetParent(), err
}

func (c *client) SetCgroupTiers(ctx context.Context, burstableShares int64) error {
	_, err := call(ctx, callTimeout, c.host.SetCgroupTiers, &hostpb.SetCgroupTiersRequest{BurstableCpuShares: burstableShares})
	return err
}

func (c *client) EnsureIDRange(ctx context.Context, uid types.UID) (host.IDRange, error) {
	resp, err := call(ctx, callTimeout, c.host.EnsureIDRange, &hostpb.EnsureIDRangeRequest{Uid: string(uid)})
	return host.IDRange{First: resp.GetFirst(), Length: resp.GetLength()}, err
}

func (c *client) EnsureHostsFile(ctx context.Context, uid types.UID, content []byte) (string, error) {
	resp, err := call(ctx, callTimeout, c.host.EnsureHostsFile, &hostpb.EnsureHostsFileRequest{Uid: string(uid), Content: content})
	return resp.GetPath(), err
}

func (c *client) RemovePod(ctx context.Context, uid types.UID, removeLogs bool) error {
	_, err := call(ctx, removeTimeout, c.host.RemovePod, &hostpb.RemovePodRequest{Uid: string(uid), RemoveLogs: removeLogs})
	return err
}

func (c *client) ListPods(ctx context.Context) ([]types.UID, error) {
	resp, err := call(ctx, callTimeout, c.host.ListPods, &hostpb.ListPodsRequest{})
	if err != nil {
		return nil, err
	}
	uids := make([]types.UID, 0, len(resp.GetUids()))
	for _, uid := range resp.GetUids() {
		uids = append(uids, types.UID(uid))
	}
	return uids, nil
}

func (c *client) ListImageRecords(ctx context.Context) ([]host.ImageRecord, error) {
	resp, err := call(ctx, callTimeout, c.host.ListImageRecords, &hostpb.ListImageRecordsRequest{})
	if err != nil {
		return nil, err
	}
	records := make([]host.ImageRecord, 0, len(resp.GetRecords()))
	for _, r := range resp.GetRecords() {
		records = append(records, host.ImageRecord{Key: r.GetKey(), Content: r.GetContent()})
	}
	return records, nil
}

func (c *client) PutImageRecord(ctx context.Context, record host.ImageRecord) error {
	_, err := call(ctx, callTimeout, c.host.PutImageRecord, &hostpb.PutImageRecordRequest{
		Record: &hostpb.ImageRecord{Key: record.Key, Content: record.Content}})
	return err
}

func (c *client) ReadTail(ctx context.Context, path string, limit int64) ([]byte, error) {
	resp, err := call(ctx, callTimeout, c.host.ReadTail, &hostpb.ReadTailRequest{Path: path, Limit: limit})
	return resp.GetData(), err
}

func (c *client) RestartCount(ctx context.Context, pod host.Pod, container string) (int32, error) {
	resp, err := call(ctx, callTimeout, c.host.RestartCount, &hostpb.RestartCountRequest{Pod: podToWire(pod), Container: container})
	return resp.GetRestartCount(), err
}

func (c *client) RemoveLogs(ctx context.Context, path string) error {
	_, err := call(ctx, callTimeout, c.host.RemoveLogs, &hostpb.RemoveLogsRequest{Path: path})
	return err
}
