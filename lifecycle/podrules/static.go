// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podrules

import v1 "k8s.io/api/core/v1"

// AnnotationSource is the kubelet's annotation that says where a pod comes from: api, file or http.
const AnnotationSource = "kubernetes.io/config.source"

// Static says whether a pod does not come from the API. Pod sources see to it that a pod of the API cannot claim so.
func Static(pod *v1.Pod) bool {
	source, ok := pod.Annotations[AnnotationSource]
	return ok && source != "api"
}

// StaticLabel is the value of the label "static" of the kubelet's metrics.
func StaticLabel(static bool) string {
	if static {
		return "true"
	}
	return ""
}
