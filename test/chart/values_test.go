// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// readYAML reads a file into a map.
func readYAML(t *testing.T, name string) map[string]any {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]any{}
	if err := yaml.Unmarshal(data, &out); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out
}

func readSchema(t *testing.T) map[string]any {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

// properties calls f with each value that a schema names, by its path; those of the entries of a list have the list's path and [].
func properties(schema map[string]any, path string, f func(path string, schema map[string]any)) {
	if items, ok := schema["items"].(map[string]any); ok && items["properties"] != nil {
		properties(items, path+"[]", f)
		return
	}
	inner, ok := schema["properties"].(map[string]any)
	if !ok {
		f(path, schema)
		return
	}
	for name, s := range inner {
		if s, ok := s.(map[string]any); ok {
			properties(s, strings.TrimPrefix(path+"."+name, "."), f)
		}
	}
}

func TestSchemaIsStrict(t *testing.T) {
	var walk func(path string, schema map[string]any)
	walk = func(path string, schema map[string]any) {
		if path == ".global" {
			return // belongs to all charts of a release
		}
		inner, ok := schema["properties"].(map[string]any)
		if ok && schema["additionalProperties"] != false {
			t.Errorf("%s: other fields are taken", path)
		}
		if schema["type"] == nil && schema["enum"] == nil {
			t.Errorf("%s: anything is taken", path)
		}
		for name, s := range inner {
			if s, ok := s.(map[string]any); ok {
				walk(path+"."+name, s)
			}
		}
		if items, ok := schema["items"].(map[string]any); ok {
			walk(path+"[]", items)
		} else if schema["type"] == "array" {
			t.Errorf("%s: a list of anything is taken", path)
		}
	}
	walk("", readSchema(t))
}

// leaves are the paths of the values that the schema names, and of those in values.yaml, which must be the same.
func leaves(t *testing.T) []string {
	t.Helper()
	var paths []string
	defaults := readYAML(t, filepath.Join(folder, "values.yaml"))
	properties(readSchema(t), "", func(path string, _ map[string]any) {
		paths = append(paths, path)
		if strings.Contains(path, "[]") || strings.HasPrefix(path, "nodeDefaults.resources.") {
			return
		}
		if _, ok := lookup(defaults, path); !ok {
			t.Errorf("%s is in values.schema.json and not in values.yaml", path)
		}
	})
	return paths
}

// lookup finds a value by its path. In a list, the first entry that has it counts.
func lookup(values any, path string) (any, bool) {
	if path == "" {
		return values, true
	}
	name, rest, _ := strings.Cut(path, ".")
	name, isList := strings.CutSuffix(name, "[]")
	object, _ := values.(map[string]any)
	value, ok := object[name]
	if !ok || !isList {
		if !ok {
			return nil, false
		}
		return lookup(value, rest)
	}
	list, _ := value.([]any)
	for _, entry := range list {
		if found, ok := lookup(entry, rest); ok {
			return found, true
		}
	}
	return nil, false
}

// TestEveryValueIsTried sees that the suites set each value to something that is not its default.
func TestEveryValueIsTried(t *testing.T) {
	suites, err := filepath.Glob(filepath.Join(folder, "tests", "*_test.yaml"))
	if err != nil || len(suites) == 0 {
		t.Fatalf("no suites: %v", err)
	}
	var settings []any
	for _, name := range suites {
		suite := readYAML(t, name)
		settings = append(settings, suite["set"])
		tests, _ := suite["tests"].([]any)
		for _, test := range tests {
			job, _ := test.(map[string]any)
			settings = append(settings, job["set"])
		}
	}
	defaults := readYAML(t, filepath.Join(folder, "values.yaml"))
	untried := map[string]bool{}
	for _, path := range leaves(t) {
		standard, _ := lookup(defaults, path)
		untried[path] = !slices.ContainsFunc(settings, func(set any) bool {
			value, ok := lookup(set, path)
			return ok && !reflect.DeepEqual(value, standard)
		})
	}
	maps.DeleteFunc(untried, func(_ string, isUntried bool) bool { return !isUntried })
	if len(untried) > 0 {
		t.Errorf("no suite of charts/tombolo/tests sets %q", slices.Sorted(maps.Keys(untried)))
	}
}
