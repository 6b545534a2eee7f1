// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/provider/machine"
)

// Config is what the user says of the node.
type Config struct {
	// Name is the name of the Node object.
	Name string
	// Labels are added to those every node has. Taints are set when the node is registered and never after.
	Labels map[string]string
	Taints []v1.Taint
	// NodeIP is where the API server reaches the kubelet API, on Port. It is an address of this process, not of the host.
	NodeIP netip.Addr
	Port   int32
	// MaxPods is the node's capacity for pods.
	MaxPods int
	// ClusterDomain is the domain of the cluster's names, "" if pods get none.
	ClusterDomain string
	// KubeletVersion is what the node says its kubelet is; see KubeletVersion.
	KubeletVersion string
}

// annotationAttach leaves attaching of volumes to the controller manager, as kubelets do.
const annotationAttach = "volumes.kubernetes.io/controller-managed-attach-detach"

// declaredFeatures are the features whose pods the scheduler gives only to nodes that declare them, and without which the API
// server refuses the changes of pods that need them, sorted, by the names of the kubelet's feature gates. An API server that does not know the field drops it, so nothing may wait for it to be shown.
var declaredFeatures = []string{
	"InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers", "RestartAllContainersOnContainerExits",
}

// memoryReservation is what the kubelet's default hard eviction threshold keeps from pods.
const memoryReservation = evictMemoryBytes

// resources are the names that this package writes into capacity and allocatable, besides those of huge pages; others are left
// to whoever set them.
var resources = []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, v1.ResourcePods}

// describe makes the Node object of a machine that told everything about itself, except for its conditions.
func (c *Config) describe(s *machine.State) *v1.Node {
	node := c.skeleton(s.Facts.OS, s.Facts.Architecture)
	node.Status.Capacity = c.capacity(s.Facts)
	node.Status.Allocatable = allocatable(node.Status.Capacity)
	node.Status.NodeInfo = c.nodeInfo(s)
	node.Status.RuntimeHandlers = runtimeHandlers(s)
	node.Status.Features = features(s)
	return node
}

// inherit makes the Node object of a machine that has not told anything yet from what the API remembers of it. It
// takes over only what this package writes: virtual-kubelet's controller would take anything more for ours and remove
// it later.
func (c *Config) inherit(remembered *v1.Node) *v1.Node {
	node := c.skeleton(remembered.Labels[v1.LabelOSStable], remembered.Labels[v1.LabelArchStable])
	old := remembered.DeepCopy().Status
	node.Status.Capacity = ours(old.Capacity)
	node.Status.Allocatable = ours(old.Allocatable)
	node.Status.NodeInfo = old.NodeInfo
	node.Status.NodeInfo.KubeletVersion = c.KubeletVersion
	node.Status.RuntimeHandlers = old.RuntimeHandlers
	node.Status.Features = old.Features
	return node
}

func ours(list v1.ResourceList) v1.ResourceList {
	out := v1.ResourceList{}
	for name, quantity := range list {
		if _, isHugePages := cri.HugePageSize(name); isHugePages || slices.Contains(resources, name) {
			out[name] = quantity
		}
	}
	return out
}

// skeleton is what does not depend on the machine but for its os and arch, which may be "".
func (c *Config) skeleton(os, arch string) *v1.Node {
	labels := map[string]string{v1.LabelHostname: c.Name}
	if os != "" {
		labels[v1.LabelOSStable], labels[kubeletapis.LabelOS] = os, os
	}
	if arch != "" {
		labels[v1.LabelArchStable], labels[kubeletapis.LabelArch] = arch, arch
	}
	maps.Copy(labels, c.Labels)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        c.Name,
			Labels:      labels,
			Annotations: map[string]string{annotationAttach: "true"},
		},
		Spec: v1.NodeSpec{Taints: slices.Clone(c.Taints)},
		Status: v1.NodeStatus{
			Addresses: []v1.NodeAddress{
				{Type: v1.NodeInternalIP, Address: c.NodeIP.String()},
				{Type: v1.NodeHostName, Address: c.Name},
			},
			DaemonEndpoints:  v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: c.Port}},
			DeclaredFeatures: slices.Clone(declaredFeatures),
		},
	}
}

// capacity leaves out what the host does not know, so that the node says what is missing.
func (c *Config) capacity(f *host.Facts) v1.ResourceList {
	list := v1.ResourceList{v1.ResourcePods: *resource.NewQuantity(int64(c.MaxPods), resource.DecimalSI)}
	if f.CPUs > 0 {
		list[v1.ResourceCPU] = *resource.NewQuantity(int64(f.CPUs), resource.DecimalSI)
	}
	if f.MemoryBytes > 0 {
		list[v1.ResourceMemory] = bytesQuantity(f.MemoryBytes)
	}
	if fs := filesystem(f, nodefs); fs != nil {
		list[v1.ResourceEphemeralStorage] = bytesQuantity(fs.CapacityBytes)
	}
	for _, pages := range f.HugePages {
		size := int64(min(pages.PageBytes, 1<<62))
		list[cri.HugePageResource(size)] = bytesQuantity(pages.PageBytes * pages.Count)
	}
	return list
}

// allocatable is capacity less what the kubelet's default hard eviction thresholds keep back, and, of memory, what is set
// aside for huge pages.
func allocatable(capacity v1.ResourceList) v1.ResourceList {
	list := capacity.DeepCopy()
	if memory, ok := list[v1.ResourceMemory]; ok {
		free := memory.Value() - memoryReservation
		for _, pages := range cri.HugePages(capacity) {
			free -= pages.Bytes
		}
		list[v1.ResourceMemory] = *resource.NewQuantity(max(0, free), resource.BinarySI)
	}
	if disk, ok := list[v1.ResourceEphemeralStorage]; ok {
		reserved := int64(float64(disk.Value()) * evictNodefsFraction)
		list[v1.ResourceEphemeralStorage] = *resource.NewQuantity(disk.Value()-reserved, resource.BinarySI)
	}
	return list
}

func bytesQuantity(n uint64) resource.Quantity {
	return *resource.NewQuantity(int64(min(n, 1<<62)), resource.BinarySI)
}

func (c *Config) nodeInfo(s *machine.State) v1.NodeSystemInfo {
	f := s.Facts
	info := v1.NodeSystemInfo{
		MachineID:               f.MachineID,
		SystemUUID:              f.SystemUUID,
		BootID:                  f.BootID,
		KernelVersion:           f.KernelVersion,
		OSImage:                 f.OSImage,
		ContainerRuntimeVersion: s.Version.GetRuntimeName() + "://" + strings.TrimPrefix(s.Version.GetRuntimeVersion(), "v"),
		KubeletVersion:          c.KubeletVersion,
		OperatingSystem:         f.OS,
		Architecture:            f.Architecture,
	}
	if f.SwapBytes > 0 { // the API refuses a capacity of zero
		info.Swap = &v1.NodeSwapStatus{Capacity: new(int64(min(f.SwapBytes, 1<<62)))}
	}
	return info
}

// runtimeHandlers names the runtime's handlers with those of their features that pods can ask for.
func runtimeHandlers(s *machine.State) []v1.NodeRuntimeHandler {
	var out []v1.NodeRuntimeHandler
	for _, h := range s.Runtime.GetRuntimeHandlers() {
		handler := v1.NodeRuntimeHandler{Name: h.GetName()}
		if f := h.GetFeatures(); f != nil {
			handler.Features = &v1.NodeRuntimeHandlerFeatures{
				RecursiveReadOnlyMounts: new(f.GetRecursiveReadOnlyMounts()), UserNamespaces: new(f.GetUserNamespaces()),
			}
		}
		out = append(out, handler)
	}
	slices.SortFunc(out, func(a, b v1.NodeRuntimeHandler) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// features are those of the runtime that pods may ask for, nil if the runtime tells of none.
func features(s *machine.State) *v1.NodeFeatures {
	f := s.Runtime.GetFeatures()
	if f == nil {
		return nil
	}
	return &v1.NodeFeatures{SupplementalGroupsPolicy: new(f.GetSupplementalGroupsPolicy())}
}
