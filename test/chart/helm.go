// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// ErrNoHelm says that there is no helm on the PATH. make unit and make e2e put one there.
var ErrNoHelm = errors.New("helm is not on the PATH: run make unit, or put $(go run -C tools ./cmd/parts bin) on the PATH after: go run -C tools ./cmd/parts build helm")

// Release says what is rendered.
type Release struct {
	// Chart is the folder of the chart.
	Chart string
	// Name and Namespace are the release's.
	Name, Namespace string
	// Values are values.yaml files; Set are settings in the form of --set.
	Values []string
	Set    []string
	// WithoutTests leaves out what helm test makes.
	WithoutTests bool
}

// Args are the arguments of helm that name the release, the chart and its values.
func (r Release) Args() []string {
	args := []string{r.Name, r.Chart, "--namespace", r.Namespace}
	for _, file := range r.Values {
		args = append(args, "--values", file)
	}
	for _, set := range r.Set {
		args = append(args, "--set", set)
	}
	return args
}

// Template renders the release's manifests.
func Template(ctx context.Context, r Release) (string, error) {
	args := append([]string{"template"}, r.Args()...)
	if r.WithoutTests {
		args = append(args, "--skip-tests")
	}
	return Helm(ctx, args...)
}

// Helm runs helm, which keeps nothing in the user's home. The error has what helm wrote to standard error.
func Helm(ctx context.Context, args ...string) (string, error) {
	program, err := exec.LookPath("helm")
	if err != nil {
		return "", ErrNoHelm
	}
	home, err := os.MkdirTemp("", "helm-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(home)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

// Objects parses manifests.
func Objects(manifests string) ([]*unstructured.Unstructured, error) {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	var out []*unstructured.Unstructured
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, fmt.Errorf("parsing manifest %d: %w", len(out)+1, err)
		}
		if len(o.Object) > 0 {
			out = append(out, o)
		}
	}
}
