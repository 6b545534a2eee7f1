// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

var update = flag.Bool("update", false, "rewrite golden files, the chart's README and deploy/kubernetes; read the difference before it is committed")

const folder = "../../charts/tombolo"

func release(values string, set ...string) Release {
	r := Release{Chart: folder, Name: "shore", Namespace: "tombolo", Set: set}
	if values != "" {
		r.Values = []string{filepath.Join("testdata", values+".yaml")}
	}
	return r
}

func needHelm(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("helm"); err != nil {
		t.Skip(ErrNoHelm)
	}
}

func template(t *testing.T, r Release) string {
	t.Helper()
	needHelm(t)
	out, err := Template(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// golden compares a text with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s is stale: go test ./test/chart -update (-want +got):\n%s", path, d)
	}
}

func TestWhatTheChartRenders(t *testing.T) {
	for _, name := range []string{"one", "full"} {
		golden(t, filepath.Join("testdata", name+".golden"), template(t, release(name)))
	}
}

func TestNotes(t *testing.T) {
	needHelm(t)
	for name, values := range map[string]string{"none": "", "one": "one", "full": "full"} {
		r := release(values)
		out, err := Helm(t.Context(), append([]string{"install", "--dry-run=client"}, r.Args()...)...)
		if err != nil {
			t.Fatal(err)
		}
		_, notes, _ := strings.Cut(out, "NOTES:\n")
		golden(t, filepath.Join("testdata", "notes-"+name+".golden"), notes)
	}
}

func TestPlainManifestsAreThoseOfTheChart(t *testing.T) {
	r := Release{Chart: folder, Name: "tombolo", Namespace: "tombolo", Values: []string{"../../deploy/kubernetes/values.yaml"}, WithoutTests: true}
	out := template(t, r)
	golden(t, "../../deploy/kubernetes/tombolo.yaml", "# Generated from charts/tombolo and values.yaml: go test ./test/chart -update\n"+out)
}

func TestReadmeHasEveryValue(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(folder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values, err := Values(data)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Splice(string(readme), "<!-- BEGIN GENERATED from values.yaml: go test ./test/chart -update -->", "<!-- END GENERATED -->", Table(values))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, path, text)
}

func TestTheLinterFindsNothing(t *testing.T) {
	needHelm(t)
	for _, values := range []string{"one", "full"} {
		out, err := Helm(t.Context(), "lint", "--strict", "--values", filepath.Join("testdata", values+".yaml"), folder)
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	needHelm(t)
	for name, tc := range map[string]struct {
		set  []string
		want string
	}{
		"unknown value":         {[]string{"imagee.tag=x"}, "imagee"},
		"unknown value below":   {[]string{"image.tagg=x"}, "tagg"},
		"unknown field of node": {[]string{"nodes[0].nam=x"}, "nam"},
		"node without a link":   {[]string{"nodes[1].name=x"}, "link"},
		"name of a node":        {[]string{"nodes[0].name=Edge_1"}, "/nodes/0/name"},
		"link":                  {[]string{"nodes[0].link=unix:///run/containerd/containerd.sock"}, "/nodes/0/link"},
		"link without a port":   {[]string{"nodes[0].link=tls://far"}, "/nodes/0/link"},
		"no certificates":       {[]string{"nodes[0].tls=null"}, "tls"},
		"SSH without a secret":  {[]string{"nodes[1].name=x", "nodes[1].link=ssh://root@far"}, "ssh"},
		"SSH to any host":       {[]string{"nodes[1].name=x", "nodes[1].link=ssh://root@far", "nodes[1].ssh.existingSecret=s"}, "knownHosts"},
		"SSH to an empty file":  {[]string{"nodes[1].name=x", "nodes[1].link=ssh://root@far", "nodes[1].ssh.existingSecret=s", "nodes[1].ssh.knownHosts="}, "knownHosts"},
		"SSH by two in one":     {[]string{"nodes[1].name=x", "nodes[1].link=ssh://root@far", "nodes[1].ssh.existingSecret=s", `nodes[1].ssh.hostKeys={SHA256:a\,b}`}, "/nodes/1/ssh/hostKeys/0"},
		"SSH by any way":        {[]string{"nodes[1].name=x", "nodes[1].link=ssh://root@far", "nodes[1].ssh.existingSecret=s", "nodes[1].ssh.hostKeys={SHA256:a}", "nodes[1].ssh.jumps={u@way}"}, "ssh.knownHosts"},
		"link with a blank":     {[]string{"nodes[0].link=tls://far #:1"}, "/nodes/0/link"},
		"one port for both":     {[]string{"metrics.port=10250"}, "metrics.port"},
		"port of the link":      {[]string{"nodes[0].link=reverse://edge-1", "metrics.port=8470"}, "8470"},
		"two ways to one host":  {[]string{"nodes[0].ssh.existingSecret=s", "nodes[0].ssh.knownHosts=k"}, "/nodes/0/ssh"},
		"reverse with a port":   {[]string{"nodes[0].link=reverse://edge-1:8470"}, "/nodes/0/link"},
		"reverse elsewhere":     {[]string{"nodes[0].reverse.service.type=NodePort"}, "/nodes/0/reverse"},
		"reverse by a name":     {[]string{"nodes[0].link=reverse://edge-1", "nodes[0].tls.serverName=x"}, "/nodes/0/tls/serverName"},
		"reverse over SSH":      {[]string{"nodes[0].link=reverse://edge-1", "nodes[0].ssh.existingSecret=s", "nodes[0].ssh.knownHosts=k"}, "/nodes/0/ssh"},
		"reverse by nothing":    {[]string{"nodes[1].name=x", "nodes[1].link=reverse://edge-1"}, "/nodes/1"},
		"two authorities":       {[]string{"nodes[0].link=reverse://edge-1", "nodes[0].reverse.join.volume.emptyDir.medium=Memory"}, "/nodes/0"},
		"joining nowhere":       {[]string{"nodes[1].name=x", "nodes[1].link=reverse://edge-1", "nodes[1].reverse.join.validity=1h"}, "volume"},
		"kind of a service":     {[]string{"nodes[0].link=reverse://edge-1", "nodes[0].reverse.service.type=ExternalName"}, "/nodes/0/reverse/service/type"},
		"taint":                 {[]string{"nodes[0].taints={a=b}"}, "/nodes/0/taints/0"},
		"label":                 {[]string{"nodes[0].labels.a=b/c"}, "/nodes/0/labels/a"},
		"argument":              {[]string{"nodes[0].extraArgs={host}"}, "/nodes/0/extraArgs/0"},
		"digest":                {[]string{"image.digest=sha256:123"}, "/image/digest"},
		"pull policy":           {[]string{"image.pullPolicy=Sometimes"}, "/image/pullPolicy"},
		"port of root":          {[]string{"kubeletAPI.port=443"}, "/kubeletAPI/port"},
		"format":                {[]string{"logFormat=xml"}, "/logFormat"},
		"text for a number":     {[]string{"nodes[0].maxPods=many"}, "/nodes/0/maxPods"},
		"DNS name":              {[]string{"cluster.dns={dns.example.com}"}, "/cluster/dns/0"},
		"authority":             {[]string{"kubeletAPI.clientCA=/etc/ca.crt"}, "/kubeletAPI/clientCA"},
		"two volumes":           {[]string{"identity.volume.emptyDir.medium=Memory", "identity.volume.hostPath.path=/x"}, "/identity/volume"},
		"two nodes of a name":   {[]string{"nodes[1].name=edge-1", "nodes[1].link=tls://a:1", "nodes[1].tls.existingSecret=s"}, "edge-1\" is there twice"},
		"monitor alone":         {[]string{"metrics.serviceMonitor.enabled=true"}, "metrics.service.enabled"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := Template(t.Context(), release("one", tc.set...))
			if err == nil {
				t.Fatalf("it was taken:\n%s", out)
			}
			if text := strings.ReplaceAll(err.Error(), "nodes.0.", "/nodes/0/"); !strings.Contains(text, tc.want) {
				t.Errorf("%v\ndoes not name %q", err, tc.want)
			}
		})
	}
}

// TestRights lists who may do what, verb by verb.
func TestRights(t *testing.T) {
	for _, tc := range []struct{ name, values string }{{"rights", "one"}, {"rights-unapproved", "full"}} {
		var lines []string
		for _, o := range objects(t, release(tc.values)) {
			lines = append(lines, rights(t, o)...)
		}
		slices.Sort(lines)
		golden(t, filepath.Join("testdata", tc.name+".golden"), strings.Join(lines, "\n")+"\n")
		for _, line := range lines {
			for _, word := range []string{"*", "secrets", "cluster-admin", "impersonate", "escalate", "bind ", "system:masters"} {
				if strings.Contains(line, word) {
					t.Errorf("%s: %s", tc.name, line)
				}
			}
		}
	}
}

func objects(t *testing.T, r Release) []*unstructured.Unstructured {
	t.Helper()
	out, err := Objects(template(t, r))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rights are the lines that an object of RBAC adds: roles with their verbs, bindings with their subjects.
func rights(t *testing.T, o *unstructured.Unstructured) (lines []string) {
	t.Helper()
	decode := func(into any) {
		t.Helper()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, into); err != nil {
			t.Fatal(err)
		}
	}
	switch o.GetKind() {
	case "ClusterRole", "Role":
		var role rbacv1.ClusterRole
		decode(&role)
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					lines = append(lines, fmt.Sprintf("%s %s may %s %s of %q %v", o.GetKind(), role.Name, verb, resource, rule.APIGroups, rule.ResourceNames))
				}
			}
			if len(rule.NonResourceURLs) > 0 {
				t.Errorf("%s: URLs %v", role.Name, rule.NonResourceURLs)
			}
		}
		if role.AggregationRule != nil {
			t.Errorf("%s gathers the rules of others", role.Name)
		}
	case "ClusterRoleBinding", "RoleBinding":
		var binding rbacv1.RoleBinding
		decode(&binding)
		for _, subject := range binding.Subjects {
			where := "everywhere"
			if o.GetKind() == "RoleBinding" {
				where = "in " + binding.Namespace
			}
			lines = append(lines, fmt.Sprintf("%s %s has %s %s %s", subject.Kind, subject.Name, binding.RoleRef.Kind, binding.RoleRef.Name, where))
		}
	}
	return lines
}

func TestEveryPodIsRestricted(t *testing.T) {
	for _, values := range []string{"one", "full"} {
		found := map[string]int{}
		for _, o := range objects(t, release(values)) {
			pod := map[string][]string{"Deployment": {"spec", "template", "spec"}, "Pod": {"spec"}}[o.GetKind()]
			if pod == nil {
				continue
			}
			found[o.GetKind()]++
			spec, _, _ := unstructured.NestedMap(o.Object, pod...)
			requireRestricted(t, o.GetKind()+" "+o.GetName(), spec)
			if o.GetKind() != "Deployment" {
				continue
			}
			if got, _, _ := unstructured.NestedString(o.Object, "spec", "strategy", "type"); got != "Recreate" {
				t.Errorf("the strategy of %s is %q", o.GetName(), got)
			}
		}
		if found["Deployment"] == 0 || found["Pod"] != found["Deployment"] {
			t.Errorf("%s: %v, want a Deployment and the Pod of a test for each node", values, found)
		}
	}
}

func requireRestricted(t *testing.T, what string, spec map[string]any) {
	t.Helper()
	for path, want := range map[string]any{
		"securityContext.runAsNonRoot":        true,
		"securityContext.seccompProfile.type": "RuntimeDefault",
		"automountServiceAccountToken":        false,
	} {
		if got, _, _ := unstructured.NestedFieldNoCopy(spec, strings.Split(path, ".")...); got != want {
			t.Errorf("%s of %s is %v, want %v", path, what, got, want)
		}
	}
	containers, _, _ := unstructured.NestedSlice(spec, "containers")
	for _, c := range containers {
		security, _, _ := unstructured.NestedMap(c.(map[string]any), "securityContext")
		want := map[string]any{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
			"capabilities": map[string]any{"drop": []any{"ALL"}},
		}
		if d := cmp.Diff(want, security); d != "" {
			t.Errorf("security context of a container of %s (-want +got):\n%s", what, d)
		}
	}
}
