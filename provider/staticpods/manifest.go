// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package staticpods

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/tombolo-dev/tombolo/lifecycle/podrules"
)

// The kubelet's annotations of pods that do not come from the API, and of the mirror pods that stand for them there.
const (
	AnnotationSource = podrules.AnnotationSource
	AnnotationSeen   = "kubernetes.io/config.seen"
	AnnotationHash   = "kubernetes.io/config.hash"
	AnnotationMirror = v1.MirrorPodAnnotationKey
)

// decoder knows the fields of a pod and refuses others, since a field with a typing error would be ignored.
var decoder = serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()

// document is a manifest and where it comes from.
type document struct {
	// kind is what the annotation config.source says: file or http.
	kind   string
	origin string
	data   []byte
}

// pods makes the static pods of a manifest, which is a Pod or a PodList in YAML or JSON.
func (d document) pods(node string) ([]*v1.Pod, error) {
	text, err := yaml.YAMLToJSONStrict(d.data)
	if err != nil {
		return nil, fmt.Errorf("reading YAML: %w", err)
	}
	object, _, err := decoder.Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	var pods []*v1.Pod
	switch object := object.(type) {
	case *v1.Pod:
		pods = append(pods, object)
	case *v1.PodList:
		for i := range object.Items {
			pods = append(pods, &object.Items[i])
		}
	default:
		return nil, fmt.Errorf("kind: %s is not supported, want Pod or PodList", object.GetObjectKind().GroupVersionKind().Kind)
	}
	for i, pod := range pods {
		if err := d.complete(pod, node, text, i); err != nil {
			return nil, fmt.Errorf("pod %d %q: %w", i, pod.Name, err)
		}
	}
	return pods, nil
}

// complete makes a static pod of one of a manifest.
func (d document) complete(pod *v1.Pod, node string, text []byte, index int) error {
	if problems := check(pod); len(problems) > 0 {
		return errors.Join(problems...)
	}
	uid, err := d.uid(node, text, index)
	if err != nil {
		return err
	}
	pod.Kind, pod.APIVersion = "", ""
	pod.UID = uid
	pod.Name += "-" + strings.ToLower(node)
	if pod.Namespace == "" {
		pod.Namespace = v1.NamespaceDefault
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[AnnotationSource] = d.kind
	pod.Annotations[AnnotationHash] = string(uid)
	pod.Spec.NodeName = node
	// A static pod stays whatever is wrong with its node.
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, v1.Toleration{Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute})
	pod.Status = v1.PodStatus{Phase: v1.PodPending}
	setDefaults(&pod.Spec)
	return nil
}

// uid is a hash of the manifest, its origin and the node. It does not depend on how the manifest is written.
func (d document) uid(node string, text []byte, index int) (types.UID, error) {
	var content any
	if err := json.Unmarshal(text, &content); err != nil {
		return "", err
	}
	canonical, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "node:%s\n%s:%s\n%d\n", node, d.kind, d.origin, index)
	h.Write(canonical)
	return types.UID(hex.EncodeToString(h.Sum(nil)[:16])), nil
}
