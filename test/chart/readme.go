// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Value is one row of the table of values.
type Value struct {
	Path, Default, Text string
}

// commentMark begins the comments of values.yaml that are for the table.
const commentMark = "# -- "

// Values reads the values of a values.yaml in their order, each with its default and its comment. A value without a comment is
// an error, unless what is below it has comments.
func Values(data []byte) ([]Value, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	return walk("", doc.Content[0])
}

func walk(prefix string, node *yaml.Node) (out []Value, err error) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		key, value := node.Content[i], node.Content[i+1]
		path := prefix + key.Value
		if text := commentText(key.HeadComment); text != "" {
			shown, err := inline(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			out = append(out, Value{Path: path, Default: shown, Text: text})
			continue
		}
		if value.Kind != yaml.MappingNode || len(value.Content) == 0 {
			return nil, fmt.Errorf("value %s has no comment that begins with %q", path, commentMark)
		}
		below, err := walk(path+".", value)
		if err != nil {
			return nil, err
		}
		out = append(out, below...)
	}
	return out, nil
}

// commentText is the text for the table in a comment, "" if there is none.
func commentText(comment string) string {
	_, text, ok := strings.Cut(comment+"\n", commentMark)
	if !ok {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#"))
	}
	return strings.Join(lines, " ")
}

// inline is a value in one line.
func inline(node *yaml.Node) (string, error) {
	copied := *node
	copied.Style, copied.HeadComment, copied.FootComment = yaml.FlowStyle, "", ""
	if node.Kind == yaml.ScalarNode {
		copied.Style = node.Style
	}
	data, err := yaml.Marshal(&copied)
	return strings.TrimSpace(string(data)), err
}

// Table writes the values as a table in Markdown.
func Table(values []Value) string {
	var b strings.Builder
	b.WriteString("| value | default | what it is |\n|---|---|---|\n")
	for _, v := range values {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", v.Path, v.Default, strings.ReplaceAll(v.Text, "|", "\\|"))
	}
	return b.String()
}

// Splice replaces what is between two lines of a text.
func Splice(text, begin, end, middle string) (string, error) {
	before, rest, ok := strings.Cut(text, begin+"\n")
	if !ok {
		return "", fmt.Errorf("there is no line %q", begin)
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("there is no line %q", end)
	}
	return before + begin + "\n" + middle + end + after, nil
}
