// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/cri"
)

// The kubelet's reasons for pods that do not fit a node. A lack of a resource is "OutOf" and the resource's name.
const (
	reasonOSLabel     = "PodOSSelectorNodeLabelDoesNotMatch"
	reasonOSField     = "PodOSNotSupported"
	reasonGroups      = "SupplementalGroupsPolicyNotSupported"
	reasonOutOf       = "OutOf"
	predicateAffinity = "NodeAffinity"
	predicateNodeName = "NodeName"
	predicatePorts    = "NodePorts"
	predicateTaints   = "TaintToleration"
)

// operatingSystem is that of every host.
const operatingSystem = string(v1.Linux)

// checkOS compares the operating system that the pod asks for with the node's.
func checkOS(pod *v1.Pod, node *v1.Node) *Rejection {
	nodeOS := operatingSystem
	if node != nil && node.Labels[v1.LabelOSStable] != "" {
		nodeOS = node.Labels[v1.LabelOSStable]
	}
	if label, ok := pod.Labels[v1.LabelOSStable]; ok && label != nodeOS {
		return &Rejection{
			Reason: reasonOSLabel, Field: "metadata.labels[" + v1.LabelOSStable + "]",
			Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
		}
	}
	if pod.Spec.OS != nil && string(pod.Spec.OS.Name) != operatingSystem {
		return &Rejection{Reason: reasonOSField, Field: "spec.os.name", Message: "Failed to admit pod as the OS field doesn't match node OS"}
	}
	return nil
}

// checkNode compares the pod with what the node has. The scheduler did so already for most pods; those that were bound
// by their author, and those bound before the node changed, are found here.
func checkNode(pod *v1.Pod, facts Facts) *Rejection {
	others := others(pod, facts)
	if r := checkCount(others, facts); r != nil {
		return r
	}
	if facts.Node == nil {
		return checkPorts(pod, others)
	}
	if r := checkGroupsPolicy(pod, facts.Node); r != nil {
		return r
	}
	if r := checkResources(pod, others, facts.Node.Status.Allocatable); r != nil {
		return r
	}
	return checkPlacement(pod, others, facts.Node)
}

// checkGroupsPolicy refuses a policy that the node's runtime does not say it knows: it would add the groups of the image.
func checkGroupsPolicy(pod *v1.Pod, node *v1.Node) *Rejection {
	sc := pod.Spec.SecurityContext
	if sc == nil || ptr.Deref(sc.SupplementalGroupsPolicy, v1.SupplementalGroupsPolicyMerge) != v1.SupplementalGroupsPolicyStrict {
		return nil
	}
	if f := node.Status.Features; f != nil && ptr.Deref(f.SupplementalGroupsPolicy, false) {
		return nil
	}
	return &Rejection{
		Reason: reasonGroups, Field: "spec.securityContext.supplementalGroupsPolicy",
		Message: "SupplementalGroupsPolicy=Strict is not supported in this node",
	}
}

// others are the active pods beside this one.
func others(pod *v1.Pod, facts Facts) []*v1.Pod {
	out := make([]*v1.Pod, 0, len(facts.ActivePods))
	for _, other := range facts.ActivePods {
		if other.UID != pod.UID {
			out = append(out, other)
		}
	}
	return out
}

func checkCount(others []*v1.Pod, facts Facts) *Rejection {
	limit := int64(facts.MaxPods)
	if limit == 0 && facts.Node != nil {
		limit = facts.Node.Status.Allocatable.Pods().Value()
	}
	if limit > 0 && int64(len(others))+1 > limit {
		return insufficient(v1.ResourcePods, 1, int64(len(others)), limit)
	}
	return nil
}

// checkResources adds up requests. A resource that every node has and this one does not declare is not compared: the node's
// facts may not be known yet.
func checkResources(pod *v1.Pod, others []*v1.Pod, allocatable v1.ResourceList) *Rejection {
	wanted := resource.PodRequests(pod, resource.PodResourcesOptions{})
	used := v1.ResourceList{}
	for _, other := range others {
		for name, q := range resource.PodRequests(other, resource.PodResourcesOptions{}) {
			sum := used[name]
			sum.Add(q)
			used[name] = sum
		}
	}
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}
	for _, a := range cri.HugePages(wanted) {
		names = append(names, cri.HugePageResource(a.Size))
	}
	for _, name := range names {
		capacity, declared := allocatable[name]
		if _, isHugePages := cri.HugePageSize(name); !declared && !isHugePages {
			continue
		}
		want, have, total := amount(name, wanted), amount(name, used), amount(name, v1.ResourceList{name: capacity})
		if want > 0 && want > total-have {
			return insufficient(name, want, have, total)
		}
	}
	return nil
}

// amount is the quantity in the kubelet's unit: thousandths for cpu, else whole ones.
func amount(name v1.ResourceName, list v1.ResourceList) int64 {
	q := list[name]
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

func insufficient(name v1.ResourceName, requested, used, capacity int64) *Rejection {
	return &Rejection{
		Reason: reasonOutOf + string(name),
		Message: fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d",
			name, requested, used, capacity),
	}
}

// checkPlacement looks at affinity, node name, ports of the host and NoExecute taints, as the kubelet does.
func checkPlacement(pod *v1.Pod, others []*v1.Pod, node *v1.Node) *Rejection {
	if match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !match {
		return predicate(predicateAffinity, "node(s) didn't match Pod's node affinity/selector")
	}
	if pod.Spec.NodeName != "" && pod.Spec.NodeName != node.Name {
		return predicate(predicateNodeName, "node(s) didn't match the requested node name")
	}
	if r := checkPorts(pod, others); r != nil {
		return r
	}
	noExecute := func(t *v1.Taint) bool { return t.Effect == v1.TaintEffectNoExecute }
	if _, found := corev1.FindMatchingUntoleratedTaint(logr.Discard(), node.Spec.Taints, pod.Spec.Tolerations, noExecute, true); found {
		return predicate(predicateTaints, "node(s) had taints that the pod didn't tolerate")
	}
	return nil
}

func predicate(name, description string) *Rejection {
	return &Rejection{Reason: name, Message: fmt.Sprintf("Predicate %s failed: %s", name, description)}
}
