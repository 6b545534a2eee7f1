// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package downward

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFieldTellsThePodOfItsMetadata(t *testing.T) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: "p", Namespace: "ns", UID: "u",
		Labels:      map[string]string{"b": "2", "a": "1"},
		Annotations: map[string]string{"quote": "say \"hi\"\n\tö\x00", "example.com/k['x']": "odd"},
	}}
	for path, want := range map[string]string{
		"metadata.name":                              "p",
		"metadata.namespace":                         "ns",
		"metadata.uid":                               "u",
		"metadata.labels":                            "a=\"1\"\nb=\"2\"",
		"metadata.labels['a']":                       "1",
		"metadata.labels['none']":                    "",
		"metadata.annotations['quote']":              "say \"hi\"\n\tö\x00",
		"metadata.annotations['example.com/k['x']']": "odd",
		"metadata.annotations":                       `example.com/k['x']="odd"` + "\n" + `quote="say \"hi\"\n\tö\x00"`,
	} {
		if got, err := Field(pod, path); err != nil || got != want {
			t.Errorf("%s = %q, %v; want %q", path, got, err, want)
		}
	}
	for path, want := range map[string]string{
		"status.phase":        "unsupported fieldPath: status.phase",
		"metadata.name['a']":  `fieldPath "metadata.name['a']" does not support subscript`,
		"['a']":               "unsupported fieldPath: ['a']",
		"metadata.labels[a]'": "unsupported fieldPath: metadata.labels[a]'",
	} {
		if _, err := Field(pod, path); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
}

func quantities(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func TestResourceIsRoundedUpAndDefaultsToWhatThereIs(t *testing.T) {
	own := v1.Container{Name: "own", Resources: v1.ResourceRequirements{
		Requests: quantities("cpu", "250m", "memory", "1000Mi", "hugepages-2Mi", "4Mi"),
		Limits:   quantities("memory", "1Gi", "hugepages-2Mi", "4Mi"),
	}}
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Name: "init", Resources: v1.ResourceRequirements{Limits: quantities("cpu", "3")}}},
		Containers:     []v1.Container{own, {Name: "bare"}},
	}}
	whole := pod.DeepCopy()
	whole.Spec.Resources = &v1.ResourceRequirements{Limits: quantities("cpu", "1500m")}
	allocatable := quantities("cpu", "3900m", "memory", "7Gi", "ephemeral-storage", "10G", "hugepages-1Gi", "8Gi")
	for _, tc := range []struct {
		pod                      *v1.Pod
		container, name, divisor string
		want                     string
	}{
		{pod, "", "requests.cpu", "", "1"},
		{pod, "", "requests.cpu", "1m", "250"},
		{pod, "", "requests.cpu", "100m", "3"},
		{pod, "", "requests.memory", "", "1048576000"},
		{pod, "", "requests.memory", "1Gi", "1"},
		{pod, "", "limits.memory", "1Mi", "1024"},
		{pod, "", "limits.memory", "1M", "1074"},
		{pod, "", "limits.hugepages-2Mi", "1Mi", "4"},
		{pod, "", "requests.hugepages-2Mi", "", "4194304"},
		{pod, "", "limits.hugepages-1Gi", "", "0"}, // huge pages are not there for all
		{pod, "", "requests.ephemeral-storage", "", "0"},
		{pod, "", "limits.cpu", "", "4"},
		{pod, "", "limits.cpu", "1m", "3900"},
		{pod, "", "limits.ephemeral-storage", "1G", "10"},
		{pod, "bare", "limits.memory", "1Gi", "7"},
		{pod, "bare", "requests.cpu", "1m", "0"},
		{pod, "init", "limits.cpu", "", "3"},
		{whole, "", "limits.cpu", "1m", "1500"},
		{whole, "init", "limits.cpu", "1m", "3000"},
		{whole, "bare", "limits.memory", "1Gi", "7"},
	} {
		ref := &v1.ResourceFieldSelector{ContainerName: tc.container, Resource: tc.name}
		if tc.divisor != "" {
			ref.Divisor = resource.MustParse(tc.divisor)
		}
		if got, err := Resource(tc.pod, &own, ref, allocatable); err != nil || got != tc.want {
			t.Errorf("%s of %q by %q = %q, %v; want %s", tc.name, tc.container, tc.divisor, got, err, tc.want)
		}
	}
}

func TestResourceNamesWhatItCannotTell(t *testing.T) {
	pod := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}}
	for _, tc := range []struct{ container, name, want string }{
		{"none", "limits.cpu", "container none not found"},
		{"", "limits.cpu", "container  not found"}, // a volume has no container of its own
		{"c", "limits.storage", "unsupported container resource : limits.storage"},
		{"c", "usage.cpu", "unsupported container resource : usage.cpu"},
		{"c", "cpu", "unsupported container resource : cpu"},
	} {
		ref := &v1.ResourceFieldSelector{ContainerName: tc.container, Resource: tc.name}
		if _, err := Resource(pod, nil, ref, nil); err == nil || err.Error() != tc.want {
			t.Errorf("%s of %q: error %v, want %s", tc.name, tc.container, err, tc.want)
		}
	}
}
