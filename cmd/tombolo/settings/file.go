// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v3"
)

// APIVersion is that of every file of settings.
const APIVersion = "tombolo.dev/v1alpha1"

// maxFileBytes bounds what is read of a file.
const maxFileBytes = 1 << 20

// File is a file of settings. Whether they exist and are of the right form shows when they are applied.
type File struct {
	path    string
	kind    string
	entries []entry
}

// entry is one key of a file.
type entry struct {
	key   string
	line  int
	value *yaml.Node
}

// Kind is what the file is for.
func (f *File) Kind() string { return f.kind }

// Read reads a file. The error has every problem on a line of its own.
func Read(path string) (*File, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes: it is no file of settings", path, maxFileBytes)
	}
	return Parse(path, data)
}

// Parse reads what is in a file of that path.
func Parse(path string, data []byte) (*File, error) {
	root, err := document(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f := &File{path: path}
	var problems []error
	wrong := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Errorf("%s, line %d: %s", path, line, fmt.Sprintf(format, args...)))
	}
	seen, version := map[string]int{}, ""
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], resolve(root.Content[i+1])
		first, twice := seen[key.Value]
		seen[key.Value] = key.Line
		switch {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			wrong(key.Line, "give a setting and its value")
		case twice:
			wrong(key.Line, "%s is in line %d already: leave one of them out", key.Value, first)
		case key.Value == "apiVersion":
			version = value.Value
		case key.Value == "kind":
			f.kind = value.Value
		default:
			f.entries = append(f.entries, entry{key: key.Value, line: key.Line, value: value})
		}
	}
	if version != APIVersion {
		wrong(max(1, seen["apiVersion"]), "apiVersion %q is not known: it must be %s", version, APIVersion)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return f, nil
}

// document returns the mapping that the one document of a file consists of.
func document(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	switch err := decoder.Decode(&first); {
	case errors.Is(err, io.EOF):
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	case err != nil:
		return nil, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more than one document: make it one")
	}
	root := resolve(first.Content[0])
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: give settings as key: value", root.Line)
	}
	return root, nil
}

// resolve follows an alias.
func resolve(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}
