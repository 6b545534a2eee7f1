// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/link"
)

// execute runs one command line in an empty environment.
func execute(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, func(string) (string, bool) { return "", false }, nil, &out, &errs)
	return code, out.String(), errs.String()
}

func TestNodeHelp(t *testing.T) {
	code, stdout, stderr := execute("node", "--help")
	if code != exitSuccess || stderr != "" {
		t.Fatalf("exit code %d, standard error %q", code, stderr)
	}
	golden(t, "node-help", stdout)
}

// parseNode parses flags on top of a set that is valid.
func parseNode(t *testing.T, args ...string) *nodeOptions {
	t.Helper()
	o := &nodeOptions{}
	fs := pflag.NewFlagSet("node", pflag.ContinueOnError)
	o.addFlags(fs)
	if err := fs.Parse(append([]string{"--name=edge-1", "--host=unix:///run/containerd/containerd.sock"}, args...)); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestNodeFlagsAmountToSettings(t *testing.T) {
	taint := v1.Taint{Key: "virtual-kubelet.io/provider", Value: "tombolo", Effect: v1.TaintEffectNoSchedule}
	unix := link.Target{Scheme: link.SchemeUnix, Address: "/run/containerd/containerd.sock"}
	for name, tc := range map[string]struct {
		args []string
		want nodeSettings
	}{
		"defaults": {nil, nodeSettings{target: unix, taints: []v1.Taint{taint}}},
		"no taint": {[]string{"--register-with-taints="}, nodeSettings{target: unix}},
		"several taints": {
			[]string{"--register-with-taints=a/b=c:NoExecute, d:PreferNoSchedule,d:NoSchedule"},
			nodeSettings{target: unix, taints: []v1.Taint{
				{Key: "a/b", Value: "c", Effect: v1.TaintEffectNoExecute},
				{Key: "d", Effect: v1.TaintEffectPreferNoSchedule},
				{Key: "d", Effect: v1.TaintEffectNoSchedule},
			}},
		},
		"mapped address": {
			[]string{"--node-ip=::ffff:192.0.2.1"},
			nodeSettings{target: unix, taints: []v1.Taint{taint}, nodeIP: netip.MustParseAddr("192.0.2.1")},
		},
		"remote host": {
			[]string{"--host=tls://192.0.2.7:8470", "--host-ca-file=ca", "--host-cert-file=c", "--host-key-file=k", "--root-dir="},
			nodeSettings{target: link.Target{Scheme: link.SchemeTLS, Address: "192.0.2.7:8470"}, taints: []v1.Taint{taint}},
		},
		"host that connects": {
			[]string{"--host=reverse://edge-1", "--listen=192.0.2.7:443", "--host-ca-file=ca", "--host-cert-file=c", "--host-key-file=k"},
			nodeSettings{target: link.Target{Scheme: link.SchemeReverse, Address: "edge-1"}, taints: []v1.Taint{taint}},
		},
		"labels of a kubelet": {
			[]string{"--node-labels=topology.kubernetes.io/zone=z,node.kubernetes.io/kind=x,example.com/role=edge,plain="},
			nodeSettings{target: unix, taints: []v1.Taint{taint}},
		},
		"DNS": {
			[]string{"--cluster-dns=10.96.0.10,fd00::10", "--cluster-domain=cluster.local.", "--cluster-id=west"},
			nodeSettings{target: unix, taints: []v1.Taint{taint}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseNode(t, tc.args...).validate()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(&tc.want, got, cmp.AllowUnexported(nodeSettings{}), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
				t.Errorf("settings (-want +got):\n%s", d)
			}
		})
	}
}

func TestNodeNamesTheFlagThatIsWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"name missing":        {[]string{"--name="}, "--name is empty"},
		"name":                {[]string{"--name=Edge_1"}, `--name "Edge_1": `},
		"host missing":        {[]string{"--host="}, "--host is empty"},
		"host scheme":         {[]string{"--host=http://far"}, `--host: target "http://far": scheme "http" is not known`},
		"host port":           {[]string{"--host=tls://far"}, "--host: "},
		"certificates":        {[]string{"--host=tls://far:8470", "--host-ca-file=ca", "--host-key-file=k"}, "--host-cert-file is empty"},
		"authority unused":    {[]string{"--host-ca-file=ca"}, "--host-ca-file is for a host behind tls://"},
		"certificate unused":  {[]string{"--host-cert-file=c"}, "--host-cert-file is for a host behind tls://"},
		"key unused":          {[]string{"--host-key-file=k"}, "--host-key-file is for a host behind tls://"},
		"server name unused":  {[]string{"--host-server-name=edge"}, "--host-server-name is for a host behind tls://"},
		"reverse with a port": {[]string{"--host=reverse://edge-1:8470"}, "no port belongs here"},
		"reverse files":       {[]string{"--host=reverse://edge-1", "--host-cert-file=c", "--host-key-file=k"}, "--host-ca-file is empty, and a host behind tls:// or reverse:// needs it"},
		"reverse server name": {[]string{"--host=reverse://edge-1", "--host-ca-file=ca", "--host-cert-file=c", "--host-key-file=k", "--host-server-name=edge"}, "--host-server-name is for a host behind tls://, and --host is reverse://edge-1"},
		"reverse over SSH":    {[]string{"--host=reverse://edge-1", "--host-ca-file=ca", "--host-cert-file=c", "--host-key-file=k", "--host-ssh-sudo"}, "--host-ssh-sudo is for a host behind ssh://"},
		"listen":              {[]string{"--host=reverse://edge-1", "--host-ca-file=ca", "--host-cert-file=c", "--host-key-file=k", "--listen=8470"}, `--listen "8470": give address:port`},
		"join files":          {[]string{"--host=reverse://edge-1", "--join-dir=/j", "--host-ca-file=ca"}, "--join-dir has the certificates of the link: leave --host-ca-file"},
		"join relative":       {[]string{"--host=reverse://edge-1", "--join-dir=j"}, `--join-dir "j": give an absolute path`},
		"join for a moment":   {[]string{"--host=reverse://edge-1", "--join-dir=/j", "--join-validity=1m"}, "--join-validity 1m0s: give at least 3m0s"},
		"join unused":         {[]string{"--join-dir=/j"}, "--join-dir is for a host behind reverse://"},
		"listen unused":       {[]string{"--listen=:9"}, "--listen is for a host behind reverse://"},
		"root":                {[]string{"--root-dir=here"}, `--root-dir "here"`},
		"logs":                {[]string{"--pod-logs-dir=here"}, `--pod-logs-dir "here"`},
		"node IP":             {[]string{"--node-ip=far"}, `--node-ip "far"`},
		"two node IPs":        {[]string{"--node-ip=192.0.2.1,2001:db8::1"}, "--node-ip"},
		"unspecified IP":      {[]string{"--node-ip=0.0.0.0"}, `--node-ip "0.0.0.0"`},
		"address":             {[]string{"--address=far"}, `--address "far"`},
		"port":                {[]string{"--port=0"}, "--port 0"},
		"large port":          {[]string{"--port=65536"}, "--port 65536"},
		"half a key pair":     {[]string{"--tls-cert-file=c"}, "--tls-cert-file and --tls-private-key-file"},
		"pods":                {[]string{"--max-pods=0"}, "--max-pods 0"},
		"processes":           {[]string{"--pod-max-pids=0"}, "--pod-max-pids 0"},
		"processes unlimited": {[]string{"--pod-max-pids=9", "--cgroups-per-qos=false"}, "--pod-max-pids limits the control group"},
		"swap":                {[]string{"--memory-swap-behavior=UnlimitedSwap"}, `--memory-swap-behavior "UnlimitedSwap": give NoSwap or LimitedSwap`},
		"starts":              {[]string{"--max-parallel-starts=0"}, "--max-parallel-starts 0"},
		"reserved label":      {[]string{"--node-labels=kubernetes.io/role=agent"}, `--node-labels "kubernetes.io/role"`},
		"reserved subdomain":  {[]string{"--node-labels=node-role.kubernetes.io/edge="}, `--node-labels "node-role.kubernetes.io/edge"`},
		"label key":           {[]string{"--node-labels=a/b/c=d"}, `--node-labels "a/b/c"`},
		"label value":         {[]string{"--node-labels=a=b/c"}, `--node-labels a="b/c"`},
		"taint":               {[]string{"--register-with-taints=a=b"}, `--register-with-taints "a=b"`},
		"taint effect":        {[]string{"--register-with-taints=a=b:Maybe"}, "NoSchedule, PreferNoSchedule or NoExecute"},
		"taint key":           {[]string{"--register-with-taints==b:NoSchedule"}, `--register-with-taints "=b:NoSchedule"`},
		"taint value":         {[]string{"--register-with-taints=a=b c:NoSchedule"}, "--register-with-taints"},
		"taint twice":         {[]string{"--register-with-taints=a=b:NoSchedule,a=c:NoSchedule"}, "there is one of this key and effect already"},
		"DNS":                 {[]string{"--cluster-dns=dns.example.com"}, `--cluster-dns "dns.example.com"`},
		"domain":              {[]string{"--cluster-domain=cluster_local"}, `--cluster-domain "cluster_local"`},
		"sysctl":              {[]string{"--allowed-unsafe-sysctls=net.core.*,NET"}, `--allowed-unsafe-sysctls: sysctl "NET" must have`},
		"sysctl of all":       {[]string{"--allowed-unsafe-sysctls=vm.swappiness"}, `--allowed-unsafe-sysctls: the sysctls "vm.swappiness" are not known to be namespaced`},
		"cluster id":          {[]string{"--cluster-id=a/b"}, `--cluster-id "a/b"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseNode(t, tc.args...).validate()
			var usage usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one of usage with %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("one mistake was reported as several:\n%v", err)
			}
		})
	}
}

func TestNodeReportsAllThatIsWrongAtOnce(t *testing.T) {
	code, _, stderr := execute("node", "--port=0", "--max-pods=-1", "--node-labels=kubernetes.io/role=x", "--register-with-taints=a")
	if code != exitUsage {
		t.Errorf("exit code %d, want %d", code, exitUsage)
	}
	for _, flag := range []string{"--name", "--host", "--port", "--max-pods", "--node-labels", "--register-with-taints"} {
		if !strings.Contains(stderr, flag+" ") {
			t.Errorf("%s is not named in:\n%s", flag, stderr)
		}
	}
}

func TestNodeSaysWhatIsWrongWithTheKubeconfig(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("not: [yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ path, want string }{
		"none, outside of a cluster": {"", "--kubeconfig is empty"},
		"missing":                    {filepath.Join(t.TempDir(), "missing"), "no such file"},
		"broken":                     {broken, "--kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			code, _, stderr := execute("node", "--name=edge-1", "--host=unix:///run/containerd/containerd.sock", "--kubeconfig="+tc.path)
			if code != exitUsage || !strings.Contains(stderr, tc.want) {
				t.Errorf("exit code %d, standard error %q, want %d with %q", code, stderr, exitUsage, tc.want)
			}
		})
	}
}

func FuzzParseTaints(f *testing.F) {
	for _, seed := range []string{"", defaultTaint, "a:NoSchedule", "a=b:NoExecute,c=:PreferNoSchedule", "=:,", "a=b=c:NoSchedule"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		taints, problems := parseTaints(text)
		if len(problems) > 0 {
			return
		}
		var parts []string
		for _, taint := range taints {
			parts = append(parts, taint.Key+"="+taint.Value+":"+string(taint.Effect))
		}
		again, problems := parseTaints(strings.Join(parts, ","))
		if len(problems) > 0 {
			t.Fatalf("%q was taken as %v, which is refused: %v", text, taints, problems)
		}
		if d := cmp.Diff(taints, again); d != "" {
			t.Errorf("%q does not survive being written out (-first +second):\n%s", text, d)
		}
	})
}
