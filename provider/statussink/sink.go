// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package statussink

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/tombolo-dev/tombolo/lifecycle/status"
	"github.com/tombolo-dev/tombolo/provider/apierr"
	"github.com/tombolo-dev/tombolo/provider/podsource"
)

// Sink writes pod statuses with a Kubernetes client.
type Sink struct {
	client kubernetes.Interface
	node   string
}

var _ status.Sink = (*Sink)(nil)

// New makes a Sink for the pods of one node. The client's identity needs get and list on pods, patch on pods/status and
// delete on pods.
func New(client kubernetes.Interface, node string) *Sink {
	return &Sink{client: client, node: node}
}

// GetPod reads the pod from the API itself, not from a cache. A refusal proves nothing: the Node authorizer refuses to
// show a pod that is gone, so the API is asked again in the way that tells.
func (s *Sink) GetPod(ctx context.Context, namespace, name string) (*v1.Pod, error) {
	pod, err := s.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	err = apierr.Classify(err)
	if errdefs.IsPermissionDenied(err) {
		return podsource.Live(ctx, s.client.CoreV1(), s.node, namespace, name)
	}
	if err != nil {
		return nil, err
	}
	return pod, nil
}

// PatchPodStatus applies a strategic merge patch of the pod's status field and returns the pod as it is then. The API
// server refuses the patch with Conflict if the pod has another UID, or another resource version unless none is given.
func (s *Sink) PatchPodStatus(
	ctx context.Context, pod types.NamespacedName, uid types.UID, version string, patch []byte,
) (*v1.Pod, error) {
	body, err := withPreconditions(uid, version, patch)
	if err != nil {
		return nil, err
	}
	patched, err := s.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body,
		metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, apierr.Classify(err)
	}
	return patched, nil
}

// DeletePod removes the pod's object without a grace period. The API server refuses with Conflict if the pod has another
// UID.
func (s *Sink) DeletePod(ctx context.Context, pod types.NamespacedName, uid types.UID) error {
	err := s.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)),
		Preconditions:      metav1.NewUIDPreconditions(string(uid)),
	})
	return apierr.Classify(err)
}

// withPreconditions makes the patch of a pod from that of its status. UID and resource version cannot be changed, so that
// naming them makes them preconditions.
func withPreconditions(uid types.UID, version string, statusPatch []byte) ([]byte, error) {
	type metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion,omitempty"`
	}
	body, err := json.Marshal(struct {
		Metadata metadata        `json:"metadata"`
		Status   json.RawMessage `json:"status"`
	}{metadata{uid, version}, statusPatch})
	if err != nil {
		return nil, fmt.Errorf("encoding the status patch: %w", err)
	}
	return body, nil
}
