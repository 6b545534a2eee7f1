// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tombolo-dev/tombolo/cri"
)

// unknownNote is the note for a field that has no rule.
const unknownNote = "it is not known to this version of Tombolo; remove it"

// violation is a field that stands in the way of running a pod.
type violation struct {
	path  string
	note  string
	value any
}

// violations walks over everything that the pod sets, in the order of the API's types.
func violations(pod *v1.Pod) []violation {
	w := walker{rules: ruleIndex}
	w.annotations(pod.Annotations)
	w.fields(reflect.ValueOf(pod.Spec), "spec", "spec")
	return w.found
}

// walker collects violations. path is where it is, pattern the same as rules write it.
type walker struct {
	rules map[string]rule
	found []violation
}

func (w *walker) report(path, note string, v reflect.Value) {
	w.found = append(w.found, violation{path: path, note: note, value: v.Interface()})
}

// field decides over one field or one entry of a map.
func (w *walker) field(v reflect.Value, path, pattern string) {
	if isUnset(v) {
		return
	}
	r, known := w.rules[pattern]
	switch {
	case !known:
		w.report(path, unknownNote, v)
	case r.verdict == supported || r.verdict == elsewhere:
	case r.verdict == limited && slices.Contains(r.values, fmt.Sprint(reflect.Indirect(v))):
	case r.verdict == inside:
		w.descend(v, path, pattern)
	default:
		w.report(path, r.note, v)
	}
}

// descend goes to the fields below a value.
func (w *walker) descend(v reflect.Value, path, pattern string) {
	switch v.Kind() {
	case reflect.Pointer:
		w.descend(v.Elem(), path, pattern)
	case reflect.Struct:
		w.fields(v, path, pattern)
	case reflect.Slice:
		for i := range v.Len() {
			w.descend(v.Index(i), fmt.Sprintf("%s[%d]", path, i), pattern+"[]")
		}
	case reflect.Map:
		w.entries(v, path, pattern)
	default:
		// A rule says "inside" of something without an inside. A test keeps this from happening; refuse all the same.
		w.report(path, unknownNote, v)
	}
}

func (w *walker) fields(v reflect.Value, path, pattern string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			w.fields(v.Field(i), path, pattern)
			continue
		}
		name := jsonName(f)
		w.field(v.Field(i), path+"."+name, pattern+"."+name)
	}
}

func (w *walker) entries(v reflect.Value, path, pattern string) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		own := fmt.Sprintf("%s[%s]", pattern, key)
		if _, known := w.rules[own]; !known {
			own = pattern + "[*]"
			if _, ok := cri.HugePageSize(v1.ResourceName(key.String())); ok {
				own = pattern + "[hugepages-*]"
			}
		}
		w.field(v.MapIndex(key), fmt.Sprintf("%s[%s]", path, key), own)
	}
}

func (w *walker) annotations(annotations map[string]string) {
	for _, r := range annotationRules {
		for _, key := range slices.Sorted(maps.Keys(annotations)) {
			if key != r.path && (!strings.HasSuffix(r.path, "/") || !strings.HasPrefix(key, r.path)) {
				continue
			}
			if r.verdict != limited || !slices.Contains(r.values, annotations[key]) {
				w.report(fmt.Sprintf("metadata.annotations[%s]", key), r.note, reflect.ValueOf(annotations[key]))
			}
		}
	}
}

// isUnset says whether a field asks for nothing: nil, empty, or the zero of its type.
func isUnset(v reflect.Value) bool {
	if q, ok := reflect.TypeAssert[resource.Quantity](v); ok {
		return q.IsZero()
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

// jsonName is the name of a field as users write it.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
