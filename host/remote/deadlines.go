// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// noDeadline leaves the end of a call to its caller.
const noDeadline time.Duration = 0

// unaryDeadline returns how long a unary call may take on the host, whatever the caller asks for. The runtime's calls have the
// kubelet's deadlines.
func unaryDeadline(method string, req any) time.Duration {
	switch r := req.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		return 2 * cri.DefaultTimeout
	case *runtimeapi.StopContainerRequest:
		return seconds(r.GetTimeout()) + cri.DefaultTimeout
	case *runtimeapi.ExecSyncRequest:
		if r.GetTimeout() <= 0 {
			return noDeadline
		}
		return seconds(r.GetTimeout()) + cri.DefaultTimeout
	case *runtimeapi.CheckpointContainerRequest:
		if r.GetTimeout() <= 0 {
			return noDeadline
		}
		return seconds(r.GetTimeout()) + cri.DefaultTimeout
	case *runtimeapi.PullImageRequest, *runtimeapi.CheckpointPodRequest, *runtimeapi.RestorePodRequest:
		return noDeadline // they take as long as there is data to move
	case *hostpb.RunHookRequest:
		return hookDeadline(r.GetTimeout().AsDuration())
	case *hostpb.ProbeRequest:
		return withSlack(r.GetTimeout().AsDuration())
	case *hostpb.EnsureVolumeRequest:
		if r.GetLocal() != nil {
			return localTimeout
		}
	case *hostpb.MeasurePodRequest:
		return measureTimeout
	case *hostpb.RemovePodRequest:
		return removeTimeout
	case *hostpb.WriteFilesRequest:
		return writeTimeout
	}
	if service, _ := splitMethod(method); service == hostpb.HostService_ServiceDesc.ServiceName {
		return callTimeout
	}
	return cri.DefaultTimeout
}

// streamDeadline returns how long a streaming call may take on the host: those that list have the deadline of a list, those
// that follow something have none.
func streamDeadline(method string) time.Duration {
	switch method {
	case runtimeapi.RuntimeService_GetContainerEvents_FullMethodName,
		hostpb.HostService_ReadLog_FullMethodName,
		hostpb.HostService_WatchPods_FullMethodName,
		hostpb.HostService_Dial_FullMethodName:
		return noDeadline
	default:
		return cri.DefaultTimeout
	}
}

// hookDeadline returns how long the answer to RunHook may take. A hook without a limit ends with its container.
func hookDeadline(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return noDeadline
	}
	return withSlack(timeout)
}

// withSlack returns how long the answer to a call may take whose work may take d, without overflow.
func withSlack(d time.Duration) time.Duration {
	return min(max(d, 0), math.MaxInt64-answerSlack) + answerSlack
}

// seconds turns a number from the wire into a duration without overflow.
func seconds(n int64) time.Duration {
	const most = math.MaxInt64/int64(time.Second) - int64(time.Hour/time.Second)
	return time.Duration(min(max(n, 0), most)) * time.Second
}
