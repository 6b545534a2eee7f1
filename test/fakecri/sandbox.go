// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package fakecri

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeServer is the runtime service. Methods that are not here are Unimplemented.
type runtimeServer struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	r *Runtime
}

var _ runtimeapi.RuntimeServiceServer = runtimeServer{}

type sandbox struct {
	id      string
	config  *runtimeapi.PodSandboxConfig
	handler string
	created time.Time
	ready   bool
	ip      string
	// told are the changes of its resources.
	told []*runtimeapi.UpdatePodSandboxResourcesRequest
}

func (s *sandbox) uid() types.UID { return types.UID(s.config.GetMetadata().GetUid()) }

func (s *sandbox) state() runtimeapi.PodSandboxState {
	if s.ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

func (s *sandbox) hostNetwork() bool {
	return s.config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

func (s runtimeServer) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: "v2.4.2", RuntimeApiVersion: "v1",
	}, nil
}

func (s runtimeServer) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	status := &runtimeapi.RuntimeStatus{}
	for _, name := range []string{runtimeapi.RuntimeReady, runtimeapi.NetworkReady} {
		c := &runtimeapi.RuntimeCondition{Type: name, Status: true}
		if message, bad := s.r.conditions[name]; bad {
			c.Status, c.Reason, c.Message = false, name+"False", message
		}
		status.Conditions = append(status.Conditions, c)
	}
	return &runtimeapi.StatusResponse{Status: status}, nil
}

func (s runtimeServer) RuntimeConfig(
	context.Context, *runtimeapi.RuntimeConfigRequest,
) (*runtimeapi.RuntimeConfigResponse, error) {
	return &runtimeapi.RuntimeConfigResponse{
		Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: runtimeapi.CgroupDriver_CGROUPFS},
	}, nil
}

func (s runtimeServer) RunPodSandbox(
	_ context.Context, req *runtimeapi.RunPodSandboxRequest,
) (*runtimeapi.RunPodSandboxResponse, error) {
	meta := req.GetConfig().GetMetadata()
	if meta.GetName() == "" || meta.GetNamespace() == "" || meta.GetUid() == "" {
		return nil, fmt.Errorf("%w: sandbox metadata needs name, namespace and uid", errdefs.ErrInvalidArgument)
	}
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	name := sandboxName(meta)
	for _, other := range r.sandboxes {
		if sandboxName(other.config.GetMetadata()) == name {
			return nil, fmt.Errorf("failed to reserve sandbox name %q: %w", name, reservedError{name, other.id})
		}
	}
	box := &sandbox{
		id: r.nextID("5a"), config: req.GetConfig(), handler: req.GetRuntimeHandler(), created: r.clock.Now(), ready: true,
	}
	if !box.hostNetwork() {
		box.ip = fmt.Sprintf("10.88.%d.%d", r.serial/250, r.serial%250+2)
	}
	r.sandboxes[box.id] = box
	r.tell(Event{Kind: SandboxMade, Selector: Selector{UID: box.uid(), ID: box.id}})
	r.wake()
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: box.id}, nil
}

// reservedError is the end of a create whose name is taken. Its class is conflict, which becomes FailedPrecondition on the
// wire.
type reservedError struct{ name, id string }

func (e reservedError) Error() string { return fmt.Sprintf("name %q is reserved for %q", e.name, e.id) }

// Conflict makes it one of the class errdefs.ErrConflict.
func (e reservedError) Conflict() {}

func sandboxName(m *runtimeapi.PodSandboxMetadata) string {
	return fmt.Sprintf("%s_%s_%s_%d", m.GetName(), m.GetNamespace(), m.GetUid(), m.GetAttempt())
}

func (s runtimeServer) StopPodSandbox(
	_ context.Context, req *runtimeapi.StopPodSandboxRequest,
) (*runtimeapi.StopPodSandboxResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	r.stopSandbox(r.sandboxes[req.GetPodSandboxId()], "stopped")
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

// stopSandbox kills what runs in the sandbox. The lock is held.
func (r *Runtime) stopSandbox(box *sandbox, how string) {
	if box == nil {
		return
	}
	for _, c := range r.containersOf(box.id) {
		if c.alive {
			r.violate(KilledBySandbox, "container %q (%s) of pod %q lived when its sandbox was %s", c.name(), c.id, c.uid(), how)
			r.signal(c, "KILL", r.clock.Now())
			r.finish(c, r.clock.Now(), exitKilled, "")
		}
	}
	box.ready = false
	r.wake()
}

func (s runtimeServer) RemovePodSandbox(
	_ context.Context, req *runtimeapi.RemovePodSandboxRequest,
) (*runtimeapi.RemovePodSandboxResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle()
	id := req.GetPodSandboxId()
	r.stopSandbox(r.sandboxes[id], "removed")
	for _, c := range r.containersOf(id) {
		delete(r.containers, c.id)
	}
	delete(r.sandboxes, id)
	r.wake()
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

func (s runtimeServer) PodSandboxStatus(
	_ context.Context, req *runtimeapi.PodSandboxStatusRequest,
) (*runtimeapi.PodSandboxStatusResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	box := r.sandboxes[req.GetPodSandboxId()]
	if box == nil {
		return nil, notFound("sandbox", req.GetPodSandboxId())
	}
	status := &runtimeapi.PodSandboxStatus{
		Id: box.id, Metadata: box.config.GetMetadata(), State: box.state(), CreatedAt: r.reported(box.created),
		Network: &runtimeapi.PodSandboxNetworkStatus{},
		Linux: &runtimeapi.LinuxPodSandboxStatus{
			Namespaces: &runtimeapi.Namespace{Options: box.config.GetLinux().GetSecurityContext().GetNamespaceOptions()},
		},
		Labels: box.config.GetLabels(), Annotations: box.config.GetAnnotations(), RuntimeHandler: box.handler,
	}
	if box.ready {
		status.Network.Ip = box.ip
	}
	return &runtimeapi.PodSandboxStatusResponse{Status: status}, nil
}

func (s runtimeServer) ListPodSandbox(
	_ context.Context, req *runtimeapi.ListPodSandboxRequest,
) (*runtimeapi.ListPodSandboxResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	resp := &runtimeapi.ListPodSandboxResponse{}
	for _, id := range sortedKeys(r.sandboxes) {
		box := r.sandboxes[id]
		if !selected(box.config.GetLabels(), req.GetFilter().GetLabelSelector()) {
			continue
		}
		resp.Items = append(resp.Items, &runtimeapi.PodSandbox{
			Id: id, Metadata: box.config.GetMetadata(), State: box.state(), CreatedAt: r.reported(box.created),
			Labels: box.config.GetLabels(), Annotations: box.config.GetAnnotations(), RuntimeHandler: box.handler,
		})
	}
	return resp, nil
}

func (s runtimeServer) PortForward(
	_ context.Context, req *runtimeapi.PortForwardRequest,
) (*runtimeapi.PortForwardResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sandboxes[req.GetPodSandboxId()] == nil {
		return nil, notFound("sandbox", req.GetPodSandboxId())
	}
	return &runtimeapi.PortForwardResponse{Url: streamURL("portforward", req.GetPodSandboxId())}, nil
}

func streamURL(kind, id string) string { return "http://127.0.0.1:1/" + kind + "/" + id }

func notFound(kind, id string) error {
	return fmt.Errorf("an error occurred when try to find %s %q: %w", kind, id, errdefs.ErrNotFound)
}

func selected(labels, selector map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

// violate records a violation. The lock is held.
func (r *Runtime) violate(kind ViolationKind, format string, args ...any) {
	r.violations = append(r.violations, Violation{Kind: kind, Text: fmt.Sprintf(format, args...)})
}
