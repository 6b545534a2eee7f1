// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestEveryFieldOfAPodHasARule walks the types of the Kubernetes API. It fails when an upgrade of k8s.io/api brings a
// field: decide what happens to it and add it to rules.go.
func TestEveryFieldOfAPodHasARule(t *testing.T) {
	used := map[string]bool{}
	requireRules(t, reflect.TypeFor[v1.PodSpec](), "spec", used)
	for _, r := range allRules() {
		if !used[r.path] {
			t.Errorf("rule for %s: there is no such field", r.path)
		}
	}
}

func requireRules(t *testing.T, typ reflect.Type, pattern string, used map[string]bool) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Pointer:
		requireRules(t, typ.Elem(), pattern, used)
	case reflect.Slice:
		requireRules(t, typ.Elem(), pattern+"[]", used)
	case reflect.Map:
		for path := range ruleIndex {
			if strings.HasPrefix(path, pattern+"[") && !strings.HasPrefix(path, pattern+"[]") {
				used[path] = true
			}
		}
		requireRule(t, pattern+"[*]", used)
	case reflect.Struct:
		for f := range typ.Fields() {
			if f.Anonymous {
				requireRules(t, f.Type, pattern, used)
				continue
			}
			path := pattern + "." + jsonName(f)
			if r, ok := requireRule(t, path, used); ok && r.verdict == inside {
				requireRules(t, f.Type, path, used)
			}
		}
	default:
		t.Errorf("rule for %s: %s has no inside", pattern, typ)
	}
}

func requireRule(t *testing.T, path string, used map[string]bool) (rule, bool) {
	t.Helper()
	used[path] = true
	r, ok := ruleIndex[path]
	if !ok {
		t.Errorf("%s has no rule", path)
	}
	return r, ok
}

func TestRulesAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range append(allRules(), annotationRules...) {
		if seen[r.path] {
			t.Errorf("two rules for %s", r.path)
		}
		seen[r.path] = true
		if (r.verdict == refused || r.verdict == limited) && r.note == "" {
			t.Errorf("the rule for %s does not say what to do instead", r.path)
		}
		if (r.verdict == limited) != (len(r.values) > 0) {
			t.Errorf("the rule for %s is limited and has no values, or the other way round", r.path)
		}
	}
}

// TestEveryRuleIsCarriedOut sets each field alone and looks whether the pod is refused as its rule says.
func TestEveryRuleIsCarriedOut(t *testing.T) {
	for _, r := range allRules() {
		if r.verdict == inside {
			continue
		}
		pod := &v1.Pod{}
		path := strings.NewReplacer("[]", "[0]", "[*]", "[example.com/thing]", "[hugepages-*]", "[hugepages-2Mi]").Replace(r.path)
		setField(reflect.ValueOf(&pod.Spec).Elem(), strings.Split(strings.ReplaceAll(strings.TrimPrefix(path, "spec."), "example.com", "example@com"), "."), !slices.Contains(r.values, "true"))
		found := violations(pod)
		if r.verdict == supported || r.verdict == elsewhere {
			if len(found) > 0 {
				t.Errorf("%s is refused: %v", path, found)
			}
			continue
		}
		if len(found) != 1 || found[0].path != path || found[0].note != r.note {
			t.Errorf("%s: found %v, want the one violation of its rule", path, found)
		}
	}
}

// setField goes along the path, making what is missing, and sets what it ends at to something that is not its
// zero; flag is the value for a bool.
func setField(v reflect.Value, path []string, flag bool) {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		setField(v.Elem(), path, flag)
		return
	}
	if len(path) == 0 {
		setAnything(v, flag)
		return
	}
	name, rest, indexed := strings.Cut(path[0], "[")
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			setField(v.Field(i), path, flag)
		}
		if f.Anonymous || jsonName(f) != name {
			continue
		}
		target := v.Field(i)
		switch {
		case indexed && target.Kind() == reflect.Slice:
			target.Set(reflect.MakeSlice(target.Type(), 1, 1))
			setField(target.Index(0), path[1:], flag)
		case indexed:
			key := strings.ReplaceAll(strings.TrimSuffix(rest, "]"), "@", ".")
			target.Set(reflect.MakeMap(target.Type()))
			value := reflect.New(target.Type().Elem()).Elem()
			setAnything(value, flag)
			target.SetMapIndex(reflect.ValueOf(key).Convert(target.Type().Key()), value)
		default:
			setField(target, path[1:], flag)
		}
	}
}

func setAnything(v reflect.Value, flag bool) {
	if v.Type() == reflect.TypeFor[resource.Quantity]() {
		v.Set(reflect.ValueOf(resource.MustParse("1")))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("something")
	case reflect.Bool:
		v.SetBool(flag)
	case reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		setAnything(value, flag)
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), value)
	case reflect.Struct:
		for _, f := range v.Fields() {
			if f.Kind() == reflect.String {
				setAnything(f, flag)
			}
		}
	default:
		panic(fmt.Sprintf("cannot set a %s", v.Type()))
	}
}

// TestFieldsWithoutARuleAreRefused stands for an API that has grown.
func TestFieldsWithoutARuleAreRefused(t *testing.T) {
	type grownContainer struct {
		Name  string            `json:"name"`
		Turbo *bool             `json:"turbo,omitempty"`
		Extra map[string]string `json:"extra,omitempty"`
	}
	type grownSpec struct {
		Containers []grownContainer `json:"containers"`
		Warp       int32            `json:"warp,omitempty"`
	}
	off := false
	w := walker{rules: ruleIndex}
	w.fields(reflect.ValueOf(grownSpec{Containers: []grownContainer{
		{Name: "a"}, {Name: "b", Turbo: &off, Extra: map[string]string{"k": "v"}},
	}, Warp: 9}), "spec", "spec")
	var got []string
	for _, v := range w.found {
		got = append(got, v.path+": "+v.note)
	}
	want := []string{"spec.containers[1].turbo: " + unknownNote, "spec.containers[1].extra: " + unknownNote, "spec.warp: " + unknownNote}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
