// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoKubeconform says that there is no kubeconform on the PATH. make unit puts one there.
var ErrNoKubeconform = errors.New("kubeconform is not on the PATH: run make unit, or put $(go run -C tools ./cmd/parts bin) on the PATH after: go run -C tools ./cmd/parts build unit")

// KubernetesVersions are those whose description of the API is built with the parts, oldest first.
func KubernetesVersions() []string { return []string{"1.35", "1.36", "1.37"} }

// A Conformer checks manifests against the API of one version of Kubernetes.
type Conformer struct {
	program, schemas string
}

// NewConformer writes the schemas of a version into a folder, one for each kind.
func NewConformer(version, folder string) (*Conformer, error) {
	program, err := exec.LookPath("kubeconform")
	if err != nil {
		return nil, ErrNoKubeconform
	}
	description, err := os.ReadFile(filepath.Join(filepath.Dir(program), "openapi-"+version+".json"))
	if err != nil {
		return nil, fmt.Errorf("the API of Kubernetes %s is not beside kubeconform: go run -C tools ./cmd/parts build unit: %w", version, err)
	}
	if err := writeSchemas(description, folder); err != nil {
		return nil, fmt.Errorf("making schemas of Kubernetes %s: %w", version, err)
	}
	return &Conformer{program: program, schemas: folder}, nil
}

// Check checks manifests. Kinds that Kubernetes does not have are named in skip, as are those of custom resources. A kind that is
// neither is an error, as is a field that is not there, or of another type.
func (c *Conformer) Check(ctx context.Context, manifests string, skip ...string) error {
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, c.program, "-strict", "-skip", strings.Join(skip, ","),
		"-schema-location", filepath.Join(c.schemas, "{{ .ResourceKind }}{{ .KindSuffix }}.json"), "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(manifests), &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubeconform: %w:\n%s", err, out.String())
	}
	return nil
}

// definitions are the types of the API by name, as JSON.
type definitions map[string]map[string]any

// writeSchemas makes a JSON schema from the description of the API for each kind of object: strict, so that a field that is
// not known is an error, and with everything that it refers to.
func writeSchemas(openAPI []byte, folder string) error {
	var description struct {
		Definitions definitions `json:"definitions"`
	}
	if err := json.Unmarshal(openAPI, &description); err != nil {
		return err
	}
	all := description.Definitions
	for name, definition := range all {
		makeStrict(name, definition)
	}
	for name, definition := range all {
		kind, ok := kindOf(definition)
		if !ok {
			continue
		}
		used := definitions{}
		all.closure(name, used)
		data, err := json.Marshal(map[string]any{
			"$schema": "http://json-schema.org/draft-07/schema#", "$ref": "#/definitions/" + name, "definitions": used,
		})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, kind), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// makeStrict turns a type of the API into a schema.
func makeStrict(name string, definition map[string]any) {
	switch {
	case strings.HasSuffix(name, ".IntOrString"):
		definition["type"] = []string{"string", "integer"}
	case strings.HasSuffix(name, ".resource.Quantity"):
		definition["type"] = []string{"string", "number"}
	}
	delete(definition, "format") // formats of numbers and of IntOrString that JSON schema does not know
	if _, ok := definition["properties"].(map[string]any); ok && definition["additionalProperties"] == nil {
		definition["additionalProperties"] = false
	}
}

// kindOf returns the name of the file of a type that is a kind of object, in the form that kubeconform looks for.
func kindOf(definition map[string]any) (file string, ok bool) {
	kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
	if len(kinds) != 1 {
		return "", false // no kind, or one of all groups, such as DeleteOptions
	}
	kind, _ := kinds[0].(map[string]any)
	field := func(name string) string {
		text, _ := kind[name].(string)
		return strings.ToLower(text)
	}
	parts := []string{field("kind"), field("version")}
	if group, _, _ := strings.Cut(field("group"), "."); group != "" {
		parts = slices.Insert(parts, 1, group)
	}
	return strings.Join(parts, "-") + ".json", true
}

// closure collects a type and all that it refers to.
func (d definitions) closure(name string, into definitions) {
	definition, known := d[name]
	if _, seen := into[name]; seen || !known {
		return
	}
	into[name] = definition
	eachReference(definition, func(to string) { d.closure(to, into) })
}

// eachReference calls f with each type that a value refers to.
func eachReference(value any, f func(name string)) {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if to, ok := inner.(string); ok && key == "$ref" {
				f(strings.TrimPrefix(to, "#/definitions/"))
				continue
			}
			eachReference(inner, f)
		}
	case []any:
		for _, inner := range v {
			eachReference(inner, f)
		}
	}
}
