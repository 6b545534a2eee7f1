// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package staticpods

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// check finds what the engine could not make sense of, and references to objects of the API, which a static pod must not
// depend on. Other mistakes show when the pod is run, or when its mirror pod is refused.
func check(pod *v1.Pod) []error {
	var c checker
	meta := field.NewPath("metadata")
	c.name(meta.Child("name"), pod.Name, validation.IsDNS1123Subdomain)
	if pod.Namespace != "" {
		c.name(meta.Child("namespace"), pod.Namespace, validation.IsDNS1123Label)
	}
	spec := field.NewPath("spec")
	if pod.Spec.ServiceAccountName != "" {
		c.refers(spec.Child("serviceAccountName"))
	}
	if len(pod.Spec.ImagePullSecrets) > 0 {
		c.refers(spec.Child("imagePullSecrets"))
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		c.refers(spec.Child("resourceClaims"))
	}
	if len(pod.Spec.EphemeralContainers) > 0 {
		c.add(field.Forbidden(spec.Child("ephemeralContainers"), "a manifest cannot have any"))
	}
	for i := range pod.Spec.Volumes {
		c.volume(spec.Child("volumes").Index(i), &pod.Spec.Volumes[i])
	}
	if len(pod.Spec.Containers) == 0 {
		c.add(field.Required(spec.Child("containers"), "give at least one"))
	}
	names := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		c.container(spec.Child("initContainers").Index(i), &pod.Spec.InitContainers[i], names)
	}
	for i := range pod.Spec.Containers {
		c.container(spec.Child("containers").Index(i), &pod.Spec.Containers[i], names)
	}
	return c.problems
}

// checker collects problems.
type checker struct{ problems []error }

func (c *checker) add(err *field.Error) { c.problems = append(c.problems, err) }

func (c *checker) refers(path *field.Path) {
	c.add(field.Forbidden(path, "a static pod cannot refer to objects of the API"))
}

func (c *checker) name(path *field.Path, name string, why func(string) []string) {
	if name == "" {
		c.add(field.Required(path, ""))
	} else if reasons := why(name); len(reasons) > 0 {
		c.add(field.Invalid(path, name, strings.Join(reasons, "; ")))
	}
}

func (c *checker) volume(path *field.Path, v *v1.Volume) {
	c.name(path.Child("name"), v.Name, validation.IsDNS1123Label)
	for kind, used := range map[string]bool{
		"secret": v.Secret != nil, "configMap": v.ConfigMap != nil, "persistentVolumeClaim": v.PersistentVolumeClaim != nil,
		"ephemeral": v.Ephemeral != nil, "csi": v.CSI != nil && v.CSI.NodePublishSecretRef != nil,
	} {
		if used {
			c.refers(path.Child(kind))
		}
	}
	if v.Projected == nil {
		return
	}
	for i, s := range v.Projected.Sources {
		if s.DownwardAPI == nil {
			c.refers(path.Child("projected", "sources").Index(i))
		}
	}
}

func (c *checker) container(path *field.Path, ctr *v1.Container, names map[string]bool) {
	c.name(path.Child("name"), ctr.Name, validation.IsDNS1123Label)
	if names[ctr.Name] {
		c.add(field.Duplicate(path.Child("name"), ctr.Name))
	}
	names[ctr.Name] = true
	if strings.TrimSpace(ctr.Image) == "" {
		c.add(field.Required(path.Child("image"), ""))
	}
	for i, e := range ctr.EnvFrom {
		if e.SecretRef != nil || e.ConfigMapRef != nil {
			c.refers(path.Child("envFrom").Index(i))
		}
	}
	for i, e := range ctr.Env {
		if f := e.ValueFrom; f != nil && (f.SecretKeyRef != nil || f.ConfigMapKeyRef != nil) {
			c.refers(path.Child("env").Index(i).Child("valueFrom"))
		}
	}
}
