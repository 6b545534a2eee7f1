// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tombolo-dev/tombolo/test/chart"
)

// render renders the chart.
func (e *environment) render(ctx context.Context, r chart.Release) ([]*unstructured.Unstructured, error) {
	r.Chart = "../../charts/tombolo"
	manifests, err := chart.Template(ctx, r)
	if err != nil {
		return nil, err
	}
	return chart.Objects(manifests)
}

// apply applies an object as kubectl does.
func (e *environment) apply(ctx context.Context, o *unstructured.Unstructured, flags ...string) error {
	manifest, err := json.Marshal(o.Object)
	if err != nil {
		return err
	}
	cmd := e.cluster.KubectlCommand(ctx, append([]string{"apply", "-f", "-"}, flags...)...)
	cmd.Stdin = bytes.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("applying %s %s: %w: %s", o.GetKind(), o.GetName(), err, out)
	}
	return nil
}

// TestTheAPIServerTakesWhatTheChartRenders: strictly, so that an unknown or misplaced field is an error, and with the pods in
// a namespace that takes only restricted ones.
func TestTheAPIServerTakesWhatTheChartRenders(t *testing.T) {
	t.Parallel()
	e := require(t)
	for _, values := range []string{"one", "full"} {
		namespace := "chart-" + values
		_, err := e.cluster.Client().CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		}}, metav1.CreateOptions{})
		must(t, err)
		t.Cleanup(func() {
			_ = e.cluster.Client().CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), namespace, metav1.DeleteOptions{})
		})
		objects, err := e.render(t.Context(), chart.Release{
			Name: "shore", Namespace: namespace, Values: []string{"../chart/testdata/" + values + ".yaml"}, Set: []string{"metrics.serviceMonitor.enabled=false"},
		})
		must(t, err)
		e.awaitAccount(t, namespace)
		for _, o := range objects {
			if o.GetKind() == "ServiceAccount" { // pods cannot be judged without
				must(t, e.apply(t.Context(), o))
			}
		}
		for _, o := range objects {
			if err := e.apply(t.Context(), o, "--dry-run=server", "--validate=strict", "--server-side"); err != nil {
				t.Errorf("%s: %v", values, err)
			}
			if o.GetKind() == "Deployment" {
				e.tryPod(t, namespace, o)
			}
		}
	}
}

// tryPod asks the API server whether it would take the pods of a Deployment.
func (e *environment) tryPod(t *testing.T, namespace string, o *unstructured.Unstructured) {
	t.Helper()
	var d appsv1.Deployment
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d))
	pod := &v1.Pod{ObjectMeta: d.Spec.Template.ObjectMeta, Spec: d.Spec.Template.Spec}
	pod.Name, pod.Namespace = d.Name, namespace
	_, err := e.cluster.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		t.Errorf("the pod of %s: %v", d.Name, err)
	}
	pod.Spec.Containers[0].SecurityContext = nil
	_, err = e.cluster.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || !strings.Contains(err.Error(), "restricted") {
		t.Errorf("a pod that is not restricted was taken, so the test shows nothing: %v", err)
	}
}
