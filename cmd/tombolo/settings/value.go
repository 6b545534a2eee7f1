// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Forms of values. The names are those that package pflag has for the types of flags.
const (
	formBool     = "bool"
	formDuration = "duration"
	formInt      = "int"
	formInt64    = "int64"
	formList     = "stringSlice"
	formMap      = "stringToString"
	formString   = "string"
)

// remedies say what to write for a value of a form.
var remedies = map[string]string{
	formBool:     "give true or false",
	formInt:      "give a number",
	formInt64:    "give a number",
	formDuration: "give a duration, such as 90s or 24h",
	formList:     "give texts, separated by commas",
	formMap:      "give key=value, separated by commas",
}

// Remedy says what is wrong with a value that a flag does not take, and what to write. Lists and maps may hold secrets and are
// not repeated.
func Remedy(f *pflag.Flag, value string) string {
	remedy, ok := remedies[f.Value.Type()]
	switch {
	case !ok:
		return fmt.Sprintf("%q is no %s", value, f.Value.Type())
	case f.Value.Type() == formList || f.Value.Type() == formMap:
		return remedy
	default:
		return fmt.Sprintf("%q: %s", value, remedy)
	}
}

// text returns what is written after a flag of the form to give it the value of a file. Errors say what to write in the file, and
// nothing of the value, which may be secret.
func text(form string, node *yaml.Node) (string, error) {
	switch form {
	case formBool:
		return scalar(node, "!!bool", remedies[form])
	case formInt, formInt64:
		return scalar(node, "!!int", remedies[form]+", without quotes")
	case formDuration:
		return scalar(node, "!!str", remedies[form])
	case formString:
		return scalar(node, "!!str", "give a text, in quotes if it could be read as something else")
	case formList:
		return list(node)
	case formMap:
		return mapping(node)
	default:
		return "", fmt.Errorf("settings of the form %q have no place in a file", form)
	}
}

func scalar(node *yaml.Node, tag, remedy string) (string, error) {
	if node.Kind != yaml.ScalarNode || node.Tag != tag {
		return "", errors.New(remedy)
	}
	return node.Value, nil
}

func list(node *yaml.Node) (string, error) {
	const remedy = "give a list of texts, such as [a, b]"
	if node.Kind != yaml.SequenceNode {
		return "", errors.New(remedy)
	}
	var fields []string
	for _, item := range node.Content {
		field, err := scalar(resolve(item), "!!str", remedy)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", item.Line, err)
		}
		fields = append(fields, field)
	}
	return record(fields)
}

func mapping(node *yaml.Node) (string, error) {
	const remedy = "give key: value, both as texts, in quotes if they could be read as something else"
	if node.Kind != yaml.MappingNode {
		return "", errors.New(remedy)
	}
	var fields []string
	seen := map[string]bool{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, err := scalar(node.Content[i], "!!str", remedy)
		value, err2 := scalar(resolve(node.Content[i+1]), "!!str", remedy)
		if err := errors.Join(err, err2); err != nil {
			return "", fmt.Errorf("line %d: %s", node.Content[i].Line, remedy)
		}
		if strings.Contains(key, "=") || seen[key] {
			return "", fmt.Errorf("line %d: key %q is there twice or has a '='", node.Content[i].Line, key)
		}
		seen[key] = true
		fields = append(fields, key+"="+value)
	}
	return record(fields)
}

// record joins fields as flags of several values want them: by commas, in quotes where that matters.
func record(fields []string) (string, error) {
	if len(fields) == 0 {
		return "", nil
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	if err := w.Write(fields); err != nil {
		return "", err
	}
	w.Flush()
	return strings.TrimSuffix(out.String(), "\n"), w.Error()
}
