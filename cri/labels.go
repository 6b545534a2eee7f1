// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

// Label and annotation keys that the kubelet writes on CRI objects. They are the only database of a node process:
// after a restart every pod worker is rebuilt from them and from the API. The keys are the kubelet's own so that
// log shippers, monitoring agents and people who read `crictl ps` find what they know.
const (
	LabelPodName       = "io.kubernetes.pod.name"
	LabelPodNamespace  = "io.kubernetes.pod.namespace"
	LabelPodUID        = "io.kubernetes.pod.uid"
	LabelContainerName = "io.kubernetes.container.name"

	AnnotationHash                     = "io.kubernetes.container.hash"
	AnnotationRestartCount             = "io.kubernetes.container.restartCount"
	AnnotationTerminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	AnnotationTerminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
	AnnotationPreStopHandler           = "io.kubernetes.container.preStopHandler"
	AnnotationContainerPorts           = "io.kubernetes.container.ports"
	AnnotationPodTerminationGrace      = "io.kubernetes.pod.terminationGracePeriod"
	AnnotationPodDeletionGrace         = "io.kubernetes.pod.deletionGracePeriod"
)

// Labels that say whose a CRI object is. Objects without exactly our values are foreign and are never touched.
const (
	LabelCluster = "tombolo.dev/cluster"
	LabelNode    = "tombolo.dev/node"
)

// LabelContainerKind tells containers apart that are not in the pod's spec. Those that are have no such label.
const (
	LabelContainerKind = "tombolo.dev/container-kind"
	// KindExitHook is a container that runs the preStop hook of one that ended by itself, which AnnotationHookOf names.
	KindExitHook = "exit-hook"

	AnnotationHookOf = "tombolo.dev/hook-of"
)

// Identity names the owner of CRI objects: one node of one cluster. It is written on every sandbox and container and
// used as the selector of every list.
type Identity struct {
	// Cluster is a stable identifier of the cluster (by default the UID of the Service default/kubernetes).
	Cluster string
	// Node is the name of the Kubernetes node.
	Node string
}

// Labels returns a fresh map of the identity labels.
func (i Identity) Labels() map[string]string {
	return map[string]string{LabelCluster: i.Cluster, LabelNode: i.Node}
}
