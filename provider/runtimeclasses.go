// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"fmt"
	"sync"

	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typednodev1 "k8s.io/client-go/kubernetes/typed/node/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/podsync"
)

// runtimeClasses asks the API for a runtime class when a sandbox needs it. The handler of a class never changes, so while the
// API does not answer the last one that was seen holds, and pods go on after a reboot of the host. It may be used by any
// number of goroutines.
type runtimeClasses struct {
	client typednodev1.RuntimeClassesGetter

	mu       sync.Mutex
	handlers map[string]string
}

var _ podsync.RuntimeClasses = (*runtimeClasses)(nil)

func newRuntimeClasses(client typednodev1.RuntimeClassesGetter) *runtimeClasses {
	return &runtimeClasses{client: client, handlers: map[string]string{}}
}

// RuntimeHandler returns the handler of the class. Its errors have the kubelet's text and no class of their own: it is not
// the host that does not answer.
func (r *runtimeClasses) RuntimeHandler(ctx context.Context, class string) (string, error) {
	rc, err := r.client.RuntimeClasses().Get(ctx, class, metav1.GetOptions{})
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.handlers[class] = rc.Handler
		return rc.Handler, nil
	case apierrors.IsNotFound(err):
		delete(r.handlers, class)
		return "", apierrors.NewNotFound(nodev1.Resource("runtimeclass"), class)
	}
	if handler, known := r.handlers[class]; known {
		return handler, nil
	}
	return "", fmt.Errorf("failed to lookup RuntimeClass %s: %v", class, err) //nolint:errorlint // not to be taken for an error of the host
}
