// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"
)

// OwnUsers says whether the pod asks for a user namespace of its own.
func OwnUsers(pod *v1.Pod) bool { return !ptr.Deref(pod.Spec.HostUsers, true) }

// UsersUnsupported is the error about a pod that asks for a user namespace which the runtime's handler cannot make.
func UsersUnsupported(handler string) error {
	if handler == "" {
		return errors.New("can't set `spec.hostUsers: false`, runtime does not support user namespaces")
	}
	return fmt.Errorf("can't set `spec.hostUsers: false`, RuntimeClass handler %q does not support user namespaces", handler)
}

// userNamespace is the pod's own, in which users and groups alike stand for others of the host, or that of the host.
func userNamespace(pod *v1.Pod, ids *runtimeapi.IDMapping) (*runtimeapi.UserNamespace, error) {
	switch {
	case !OwnUsers(pod):
		return &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_NODE}, nil
	case ids == nil:
		return nil, UsersUnsupported("")
	}
	return &runtimeapi.UserNamespace{
		Mode: runtimeapi.NamespaceMode_POD, Uids: []*runtimeapi.IDMapping{ids}, Gids: []*runtimeapi.IDMapping{ids},
	}, nil
}

// mapped returns copies of mounts in which files belong to the ids inside that they belong to on the host.
func mapped(mounts []*runtimeapi.Mount, ids *runtimeapi.IDMapping) []*runtimeapi.Mount {
	out := make([]*runtimeapi.Mount, 0, len(mounts))
	for _, m := range mounts {
		m = proto.CloneOf(m)
		m.UidMappings, m.GidMappings = []*runtimeapi.IDMapping{ids}, []*runtimeapi.IDMapping{ids}
		out = append(out, m)
	}
	return out
}
