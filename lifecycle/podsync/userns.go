// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"fmt"
	"slices"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// Users gives pods ids of their own on the host.
type Users interface {
	// EnsureIDRange returns the pod's range, which no other pod of the host has. It is idempotent.
	EnsureIDRange(ctx context.Context, uid types.UID) (host.IDRange, error)
}

var _ Users = host.UserNamespaces(nil)

// ensureIDs finds out which ids of the host stand for those of the pod, if it has a user namespace of its own. A sandbox that
// exists shows that the runtime can make one.
func (p *pass) ensureIDs(ctx context.Context) error {
	if !cri.OwnUsers(p.pod) {
		return nil
	}
	if p.actions.CreateSandbox {
		if err := p.checkHandler(ctx); err != nil {
			return err
		}
	}
	timed, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	ids, err := p.opts.Users.EnsureIDRange(timed, p.pod.UID)
	if errdefs.IsDeadlineExceeded(err) {
		err = fmt.Errorf("%w: %w", errdefs.ErrUnavailable, err) // the host did not answer
	}
	if err != nil {
		return fmt.Errorf("create user namespace: %w", err)
	}
	p.ids = &runtimeapi.IDMapping{HostId: ids.First, Length: ids.Length}
	return nil
}

// checkHandler refuses a handler that does not say it can make user namespaces.
func (p *pass) checkHandler(ctx context.Context) error {
	handler, features, err := p.handlerFeatures(ctx)
	if err != nil {
		return err
	}
	if !ptr.Deref(features.UserNamespaces, false) {
		return cri.UsersUnsupported(handler)
	}
	return nil
}

// handlerFeatures are what the handler of the pod's runtime class says it can do, by the status of the node. One that says nothing
// can do nothing. Unavailable means that the node is not known yet.
func (p *pass) handlerFeatures(ctx context.Context) (handler string, features v1.NodeRuntimeHandlerFeatures, err error) {
	handler, err = p.runtimeHandler(ctx)
	if err != nil {
		return "", features, err
	}
	var node *v1.Node
	if p.opts.Node != nil {
		node = p.opts.Node()
	}
	if node == nil {
		return "", features, fmt.Errorf("the handlers of the runtime are not known yet: %w", errdefs.ErrUnavailable)
	}
	i := slices.IndexFunc(node.Status.RuntimeHandlers, func(h v1.NodeRuntimeHandler) bool {
		return h.Name == handler && h.Features != nil
	})
	if i >= 0 {
		features = *node.Status.RuntimeHandlers[i].Features
	}
	return handler, features, nil
}
