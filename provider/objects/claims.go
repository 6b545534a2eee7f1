// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/provider/apierr"
)

// claimTimeout bounds reading a claim or what it is bound to.
const claimTimeout = 10 * time.Second

// Claim returns a PersistentVolumeClaim of the pod's namespace. It is read anew with each call: a node may get claims of its pods,
// and not watch them. The text of the error is the API's, and it has the class of its answer.
func (o *Objects) Claim(ctx context.Context, pod *v1.Pod, name string) (*v1.PersistentVolumeClaim, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	claim, err := o.client.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, apierr.Classify(err)
	}
	return claim, nil
}

// PersistentVolume returns a PersistentVolume that a claim of the pod is bound to, in the way of Claim.
func (o *Objects) PersistentVolume(ctx context.Context, _ *v1.Pod, name string) (*v1.PersistentVolume, error) {
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	pv, err := o.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, apierr.Classify(err)
	}
	return pv, nil
}
