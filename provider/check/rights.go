// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import "strings"

// nodeUser begins the name of every node towards the API.
const nodeUser = "system:node:"

const (
	groupAuthentication = "authentication.k8s.io"
	groupAuthorization  = "authorization.k8s.io"
	groupCertificates   = "certificates.k8s.io"
	groupCoordination   = "coordination.k8s.io"
	groupNode           = "node.k8s.io"
	namespaceLeases     = "kube-node-lease"
	namespaceSystem     = "kube-system"
)

// Right is one verb for one kind of object.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Namespace and Name are "" for all.
	Namespace, Name string
	// OfNode says that only the pods of the node are meant.
	OfNode bool
	// For is what the right is needed for. Without is what happens without it, if the node can do without.
	For, Without string
}

// String is the right in words.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.OfNode {
		text += " of this node"
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// remedy says how somebody gets the right.
func (r Right) remedy(id Identity) string {
	if !id.Node {
		return "let the chart make its roles (rbac.create), or bind the ClusterRole system:node-bootstrapper to " + id.User
	}
	switch {
	case r.Subresource == "selfnodeclient":
		return "let the chart make its roles (rbac.create), or bind a ClusterRole with this verb to " + id.User
	case r.Namespace == namespaceSystem:
		return "bind the Role extension-apiserver-authentication-reader in kube-system to " + id.User + ", or give --client-ca-file instead of --client-ca-from-cluster"
	default:
		return "the API server must run with --authorization-mode=Node,RBAC; without the Node authorizer, grant it to the group system:nodes in a ClusterRole (docs/identity.md)"
	}
}

// AskerRights are what an identity needs that asks for the node's own: the roles of the chart.
func AskerRights() []Right {
	const purpose = "to ask for the node's certificate and see the answer"
	var rights []Right
	for _, verb := range []string{"create", "get", "list", "watch"} {
		rights = append(rights, Right{Verb: verb, Group: groupCertificates, Resource: "certificatesigningrequests", For: purpose})
	}
	return append(rights, Right{
		Verb: "create", Group: groupCertificates, Resource: "certificatesigningrequests", Subresource: "nodeclient",
		For: "to be approved by kube-controller-manager", Without: "somebody has to approve each request of the node (kubectl certificate approve)",
	})
}

// NodeRights are what the node itself needs. What pods refer to is left out: the Node authorizer allows it pod by pod.
func NodeRights(node string, clientCAFromCluster bool) []Right {
	var rights []Right
	add := func(r Right, verbs ...string) {
		for _, verb := range verbs {
			r.Verb = verb
			rights = append(rights, r)
		}
	}
	add(Right{Resource: "nodes", For: "to register the node"}, "create")
	add(Right{Resource: "nodes", Name: node, For: "to follow the node"}, "get", "list", "watch", "patch")
	add(Right{Resource: "nodes", Subresource: "status", Name: node, For: "to tell the node's state"}, "patch")
	add(Right{Group: groupCoordination, Resource: "leases", Namespace: namespaceLeases, Name: node, For: "to show that the node is alive"}, "get", "create", "update")
	add(Right{Resource: "pods", OfNode: true, For: "to know what is to run"}, "list", "watch")
	add(Right{Resource: "events", For: "to tell what happens"}, "create", "patch")
	add(Right{Resource: "services", For: "for the variables of Services that containers get"}, "list", "watch")
	add(Right{Group: groupNode, Resource: "runtimeclasses", For: "for pods with a runtimeClassName"}, "get")
	add(Right{Group: groupAuthentication, Resource: "tokenreviews", For: "to know who calls the kubelet API"}, "create")
	add(Right{Group: groupAuthorization, Resource: "subjectaccessreviews", For: "to know what callers of the kubelet API may do"}, "create")
	add(Right{Group: groupCertificates, Resource: "certificatesigningrequests", For: "to renew the node's certificates"}, "create", "get", "list", "watch")
	add(Right{
		Group: groupCertificates, Resource: "certificatesigningrequests", Subresource: "selfnodeclient", For: "to have renewals approved",
		Without: "somebody has to approve each renewal (kubectl certificate approve)",
	}, "create")
	if clientCAFromCluster {
		add(Right{Resource: "configmaps", Namespace: namespaceSystem, Name: "extension-apiserver-authentication", For: "to know the API server by its certificate"}, "get", "list", "watch")
	}
	return rights
}

// selector limits a right to the pods of a node.
func (r Right) selector(user string) (key, value string) {
	switch {
	case r.OfNode:
		return "spec.nodeName", strings.TrimPrefix(user, nodeUser)
	case r.Resource == "nodes" && (r.Verb == "list" || r.Verb == "watch"):
		return "metadata.name", r.Name
	default:
		return "", ""
	}
}
