// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// shows says whether the API's node has everything of ours. What others added to it does not count, and neither do times.
func shows(api, ours *v1.Node) bool {
	return showsMachine(api, ours) && containsConditions(api.Status.Conditions, ours.Status.Conditions, true)
}

// sameNews says whether two of our nodes differ in nothing but the messages of conditions. A message may change with
// every attempt to reach a host, which is not worth a write each time.
func sameNews(a, b *v1.Node) bool {
	return showsMachine(a, b) && showsMachine(b, a) && containsConditions(a.Status.Conditions, b.Status.Conditions, false)
}

func showsMachine(api, ours *v1.Node) bool {
	return contains(api.Labels, ours.Labels) &&
		contains(api.Annotations, ours.Annotations) &&
		containsQuantities(api.Status.Capacity, ours.Status.Capacity) &&
		containsQuantities(api.Status.Allocatable, ours.Status.Allocatable) &&
		containsAddresses(api.Status.Addresses, ours.Status.Addresses) &&
		equality.Semantic.DeepEqual(api.Status.DaemonEndpoints, ours.Status.DaemonEndpoints) &&
		equality.Semantic.DeepEqual(api.Status.NodeInfo, ours.Status.NodeInfo) &&
		equality.Semantic.DeepEqual(api.Status.RuntimeHandlers, ours.Status.RuntimeHandlers) &&
		equality.Semantic.DeepEqual(api.Status.Features, ours.Status.Features)
}

func contains(all, some map[string]string) bool {
	for key, value := range some {
		if got, ok := all[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func containsQuantities(all, some v1.ResourceList) bool {
	for name, quantity := range some {
		if got, ok := all[name]; !ok || got.Cmp(quantity) != 0 {
			return false
		}
	}
	return true
}

func containsAddresses(all, some []v1.NodeAddress) bool {
	for _, address := range some {
		if !slices.Contains(all, address) {
			return false
		}
	}
	return true
}

func containsConditions(all, some []v1.NodeCondition, messages bool) bool {
	for i := range some {
		got := condition(all, some[i].Type)
		if got == nil || got.Status != some[i].Status || got.Reason != some[i].Reason {
			return false
		}
		if messages && got.Message != some[i].Message {
			return false
		}
	}
	return true
}
