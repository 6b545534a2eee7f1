// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/host"
)

// ReasonUnsupported is the reason of pods that ask for something this node cannot do.
const ReasonUnsupported = "UnsupportedPodSpec"

// maxMessage bounds the length of a message in bytes, below the API's limit of 1024 for events and with room for
// "Pod was rejected: ".
const maxMessage = 1000

// Rejection says why a pod is not run. The pod becomes Failed with the reason and "Pod was rejected: <message>", and an
// event tells the same.
type Rejection struct {
	// Reason is one of the kubelet's admission reasons or ReasonUnsupported.
	Reason string
	// Field is the first field in the way; "" if it is not one field's fault.
	Field string
	// Message names all fields in the way, with remedies, or says what the node lacks.
	Message string
}

// Facts are what a decision needs to know besides the pod.
type Facts struct {
	// MaxPods is the most pods that may be active at once. Zero takes the node's allocatable pods.
	MaxPods int
	// ActivePods are the other pods that count as running.
	ActivePods []*v1.Pod
	// Node is the node object. Without it only the number of pods is compared.
	Node *v1.Node
	// Host are the facts of the machine. Without them its kernel is taken for a recent one with AppArmor.
	Host *host.Facts
	// UnsafeSysctls are sysctls that are allowed besides the safe ones, see ValidateSysctlPattern.
	UnsafeSysctls []string
}

// Check returns nil if the pod may run. A pod is checked once, before anything is done for it.
func Check(pod *v1.Pod, facts Facts) *Rejection {
	if r := checkOS(pod, facts.Node); r != nil {
		return r
	}
	if found := violations(pod); len(found) > 0 {
		return &Rejection{Reason: ReasonUnsupported, Field: found[0].path, Message: unsupportedMessage(found)}
	}
	if r := checkSysctls(pod, facts); r != nil {
		return r
	}
	if r := checkNode(pod, facts); r != nil {
		return r
	}
	return checkAppArmor(pod, facts)
}

// unsupportedMessage lists the violations, as many as there is room for.
func unsupportedMessage(found []violation) string {
	var b strings.Builder
	b.WriteString("this node cannot run the pod as it is written: ")
	for i, v := range found {
		text := v.path + " (" + v.note + ")"
		if i > 0 {
			text = "; " + text
		}
		if b.Len()+len(text) > maxMessage-len("; and 1000 more fields") {
			fmt.Fprintf(&b, "; and %d more fields", len(found)-i)
			break
		}
		b.WriteString(text)
	}
	return b.String()
}
