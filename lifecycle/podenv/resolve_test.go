// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// fakeObjects are an API's objects by name, all of one namespace, and its services by namespace.
type fakeObjects struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string]string
	services   map[string][]*v1.Service
	// err is what every read ends with, unless it is nil. reads counts them by object.
	err   error
	reads map[string]int
}

func (f *fakeObjects) ConfigMap(_ context.Context, _ *v1.Pod, name string) (*v1.ConfigMap, error) {
	f.count("configmap " + name)
	data, ok := f.configMaps[name]
	if err := f.failure("configmap", name, ok); err != nil {
		return nil, err
	}
	return &v1.ConfigMap{Data: data}, nil
}

func (f *fakeObjects) Secret(_ context.Context, _ *v1.Pod, name string) (*v1.Secret, error) {
	f.count("secret " + name)
	data, ok := f.secrets[name]
	if err := f.failure("secret", name, ok); err != nil {
		return nil, err
	}
	s := &v1.Secret{Data: map[string][]byte{}}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s, nil
}

func (f *fakeObjects) Services(_ context.Context, namespace string) ([]*v1.Service, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.services[namespace], nil
}

func (f *fakeObjects) count(what string) {
	if f.reads == nil {
		f.reads = map[string]int{}
	}
	f.reads[what]++
}

func (f *fakeObjects) failure(kind, name string, exists bool) error {
	switch {
	case f.err != nil:
		return f.err
	case !exists:
		return fmt.Errorf("%s %q %w", kind, name, errdefs.ErrNotFound)
	default:
		return nil
	}
}

func objects() *fakeObjects {
	return &fakeObjects{
		configMaps: map[string]map[string]string{"cm": {"B": "cm-b", "A": "cm-a", "odd.key-1": "o"}, "other": {"A": "other-a"}},
		secrets:    map[string]map[string]string{"s": {"A": "s-a", "P": "p\xff\x01"}},
	}
}

func testPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"x/y": "note"},
		},
		Spec: v1.PodSpec{NodeName: "n1", ServiceAccountName: "sa", EnableServiceLinks: ptr.To(true)},
	}
}

// resolve resolves a container, written in YAML, on a node that is known.
func resolve(t *testing.T, f *fakeObjects, pod *v1.Pod, container string) (*Output, error) {
	t.Helper()
	c := &v1.Container{}
	if err := yaml.UnmarshalStrict([]byte(container), c); err != nil {
		t.Fatal(err)
	}
	before := c.DeepCopy()
	out, err := Resolve(t.Context(), Input{
		Pod: pod, Container: c, Objects: f, PodIPs: []string{"10.1.0.7", "fd00::7"}, HostIPs: []string{"192.0.2.1", "2001:db8::1"},
		Node: &v1.Node{Status: v1.NodeStatus{Allocatable: v1.ResourceList{v1.ResourceMemory: resource.MustParse("4Gi")}}},
	})
	if diff := cmp.Diff(before, c); diff != "" {
		t.Errorf("the definition was changed (-before +after):\n%s", diff)
	}
	return out, err
}

// variables writes the environment as NAME=value.
func variables(out *Output) []string {
	var text []string
	for _, kv := range out.Env {
		text = append(text, kv.Key+"="+string(kv.Value))
	}
	return text
}

func TestResolveFollowsTheOrderOfDefinition(t *testing.T) {
	for _, tc := range []struct {
		name, container string
		want            []string
	}{
		{name: "no variables", container: `{name: c}`},
		{
			"a variable sees the ones before it but not the ones after it",
			`{env: [{name: A, value: "1"}, {name: B, value: $(A)$(C)}, {name: C, value: "3"}]}`,
			[]string{"A=1", "B=1$(C)", "C=3"},
		},
		{
			"the last definition counts, at the place of the first",
			`{env: [{name: A, value: "1"}, {name: B, value: "2"}, {name: A, value: "3"}]}`,
			[]string{"A=3", "B=2"},
		},
		{
			"a definition may extend the earlier one of the same name",
			`{env: [{name: PATH, value: /bin}, {name: PATH, value: "/opt:$(PATH)"}]}`,
			[]string{"PATH=/opt:/bin"},
		},
		{
			"a reference to itself without an earlier definition stays",
			`{env: [{name: PATH, value: "/opt:$(PATH)"}]}`,
			[]string{"PATH=/opt:$(PATH)"},
		},
		{
			"an escaped reference is not expanded where the variable is used either",
			`{env: [{name: A, value: "1"}, {name: B, value: $$(A)}, {name: C, value: $(B)}]}`,
			[]string{"A=1", "B=$(A)", "C=$(A)"},
		},
		{
			"an empty value is a value",
			`{env: [{name: A}, {name: B, value: "[$(A)]"}]}`,
			[]string{"A=", "B=[]"},
		},
		{
			"whole objects come first, later ones over earlier ones, single variables over both",
			`{env: [{name: B, value: "own $(A)"}], envFrom: [{configMapRef: {name: cm}}, {configMapRef: {name: other}}]}`,
			[]string{"A=other-a", "B=own other-a", "odd.key-1=o"},
		},
		{
			"a prefix keeps sources apart",
			`{envFrom: [{configMapRef: {name: cm}, prefix: cm_}, {secretRef: {name: s}, prefix: "1 "}]}`,
			[]string{"cm_A=cm-a", "cm_B=cm-b", "cm_odd.key-1=o", "1 A=s-a", "1 P=p\xff\x01"},
		},
		{
			"values from elsewhere are not expanded but may be referred to",
			`{env: [{name: K, valueFrom: {configMapKeyRef: {name: cm, key: B}}}, {name: S, valueFrom: {secretKeyRef: {name: s, key: A}}},
			        {name: T, value: $(K)/$(S)}]}`,
			[]string{"K=cm-b", "S=s-a", "T=cm-b/s-a"},
		},
		{
			"what may be missing and is leaves no variable, or the one before",
			`{env: [{name: A, value: before}, {name: A, valueFrom: {configMapKeyRef: {name: none, key: k, optional: true}}},
			        {name: B, valueFrom: {configMapKeyRef: {name: cm, key: none, optional: true}}},
			        {name: C, valueFrom: {secretKeyRef: {name: none, key: k, optional: true}}},
			        {name: D, valueFrom: {secretKeyRef: {name: s, key: none, optional: true}}}, {name: E, value: $(B)}],
			  envFrom: [{configMapRef: {name: none, optional: true}}, {secretRef: {name: none, optional: true}}]}`,
			[]string{"A=before", "E=$(B)"},
		},
		{
			"a literal value goes before a source beside it",
			`{env: [{name: A, value: literal, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}`,
			[]string{"A=literal"},
		},
		{
			"the pod tells of itself",
			`{env: [{name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}, {name: NS, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}},
			        {name: UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}, {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}},
			        {name: NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['x/y']"}}}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}},
			        {name: OLD, valueFrom: {fieldRef: {fieldPath: spec.host}}}, {name: SA, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}},
			        {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}, {name: IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}},
			        {name: HOST, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}, {name: HOSTS, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}]}`,
			[]string{
				"NAME=p", "NS=ns", "UID=u", "APP=web", "NOTE=note", "NODE=n1", "OLD=n1", "SA=sa", "IP=10.1.0.7", "IPS=10.1.0.7,fd00::7",
				"HOST=192.0.2.1", "HOSTS=192.0.2.1,2001:db8::1",
			},
		},
		{
			"resources are the container's own or else the node's",
			`{env: [{name: REQ, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}},
			        {name: LIM, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}], resources: {requests: {cpu: 250m}}}`,
			[]string{"REQ=250", "LIM=4096"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := objects()
			out, err := resolve(t, f, testPod(), tc.container)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, variables(out)); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if out.Command != nil || out.Args != nil {
				t.Errorf("command %q and args %q instead of the image's own", out.Command, out.Args)
			}
			for what, n := range f.reads {
				if n > 1 && !strings.HasSuffix(what, " none") {
					t.Errorf("%s was read %d times: its variables may be of several versions", what, n)
				}
			}
		})
	}
}

func TestResolveExpandsCommandAndArgsWithTheFinalEnvironment(t *testing.T) {
	f := objects()
	f.services = map[string][]*v1.Service{"ns": {service("db", "10.0.0.2", v1.ServicePort{Port: 5432})}}
	out, err := resolve(t, f, testPod(), `
env: [{name: A, value: "1"}, {name: B, value: x y}, {name: A, value: "2"}]
command: [/bin/$(A), $(B), $(DB_SERVICE_HOST)]
args: [$$(A), $(NONE), ""]
`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/2", "x y", "10.0.0.2"}, out.Command); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"$(A)", "$(NONE)", ""}, out.Args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
}

func TestResolveSaysWhatIsMissingInTheKubeletsWords(t *testing.T) {
	away := fmt.Errorf("failed to sync secret cache: %w", errdefs.ErrUnavailable)
	for _, tc := range []struct {
		name, container string
		err             error
		want            string
		is              func(error) bool
	}{
		{"a ConfigMap", `{envFrom: [{configMapRef: {name: none}}]}`, nil, `configmap "none" not found`, errdefs.IsNotFound},
		{"a Secret", `{envFrom: [{secretRef: {name: none}}]}`, nil, `secret "none" not found`, errdefs.IsNotFound},
		{"a ConfigMap of a key", `{env: [{name: A, valueFrom: {configMapKeyRef: {name: none, key: k}}}]}`, nil, `configmap "none" not found`, errdefs.IsNotFound},
		{"a key of a ConfigMap", `{env: [{name: A, valueFrom: {configMapKeyRef: {name: cm, key: k}}}]}`, nil, "couldn't find key k in ConfigMap ns/cm", nil},
		{"a key of a Secret", `{env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}`, nil, "couldn't find key k in Secret ns/s", nil},
		{"a field", `{env: [{name: A, valueFrom: {fieldRef: {fieldPath: status.phase}}}]}`, nil, "unsupported fieldPath: status.phase", nil},
		{"the API", `{name: c}`, away, away.Error(), errdefs.IsUnavailable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := objects()
			f.err = tc.err
			_, err := resolve(t, f, testPod(), tc.container)
			if err == nil || err.Error() != tc.want {
				t.Fatalf("error %v, want %s", err, tc.want)
			}
			if tc.is != nil && !tc.is(err) {
				t.Errorf("error %v lost its class", err)
			}
		})
	}
}

func TestAnOptionalObjectThatCannotBeReadIsNotTakenForMissing(t *testing.T) {
	f := objects()
	f.err = fmt.Errorf("failed to sync configmap cache: %w", errdefs.ErrPermissionDenied)
	pod := testPod()
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"} // services are not waited for
	if _, err := resolve(t, f, pod, `{envFrom: [{configMapRef: {name: cm, optional: true}}]}`); !errdefs.IsPermissionDenied(err) {
		t.Errorf("error %v, want that of the API", err)
	}
}

func TestWhatIsNotKnownOfTheNodeYetIsAnError(t *testing.T) {
	for _, v := range []v1.EnvVarSource{
		{FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"}}, {FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIPs"}},
		{ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}},
	} {
		c := &v1.Container{Env: []v1.EnvVar{{Name: "A", ValueFrom: &v}}}
		if out, err := Resolve(t.Context(), Input{Pod: testPod(), Container: c, Objects: objects()}); err == nil {
			t.Errorf("%+v gave %q", v, variables(out))
		}
	}
}

func service(name, ip string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func TestServicesAreAnnouncedAsLinks(t *testing.T) {
	https := v1.ServicePort{Name: "https", Port: 443, Protocol: v1.ProtocolTCP}
	services := map[string][]*v1.Service{
		"default": {service("kubernetes", "10.0.0.1", https), service("hidden", "10.0.0.9", v1.ServicePort{Port: 1})},
		"ns": {
			service("my-db", "fd00::2", v1.ServicePort{Port: 5432, Name: "pg-main"}, v1.ServicePort{Port: 53, Name: "dns", Protocol: v1.ProtocolUDP}),
			service("headless", "None", v1.ServicePort{Port: 1}),
			service("external", ""),
		},
		"own": {service("kubernetes", "10.0.0.7", v1.ServicePort{Port: 80})},
	}
	master := []string{
		"KUBERNETES_PORT=tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1",
		"KUBERNETES_PORT_443_TCP_PORT=443", "KUBERNETES_PORT_443_TCP_PROTO=tcp", "KUBERNETES_SERVICE_HOST=10.0.0.1",
		"KUBERNETES_SERVICE_PORT=443", "KUBERNETES_SERVICE_PORT_HTTPS=443",
	}
	db := []string{
		"MY_DB_PORT=tcp://[fd00::2]:5432", "MY_DB_PORT_53_UDP=udp://[fd00::2]:53", "MY_DB_PORT_53_UDP_ADDR=fd00::2", "MY_DB_PORT_53_UDP_PORT=53",
		"MY_DB_PORT_53_UDP_PROTO=udp", "MY_DB_PORT_5432_TCP=tcp://[fd00::2]:5432", "MY_DB_PORT_5432_TCP_ADDR=fd00::2",
		"MY_DB_PORT_5432_TCP_PORT=5432", "MY_DB_PORT_5432_TCP_PROTO=tcp", "MY_DB_SERVICE_HOST=fd00::2", "MY_DB_SERVICE_PORT=5432",
		"MY_DB_SERVICE_PORT_DNS=53", "MY_DB_SERVICE_PORT_PG_MAIN=5432",
	}
	for _, tc := range []struct {
		name, namespace string
		links           *bool
		container       string
		want            []string
	}{
		{"those of the namespace and the API server", "ns", ptr.To(true), `{name: c}`, append(append([]string{}, master...), db...)},
		{"by default", "ns", nil, `{name: c}`, append(append([]string{}, master...), db...)},
		{"only the API server if links are off", "ns", ptr.To(false), `{name: c}`, master},
		{"not those of the default namespace", "empty", ptr.To(true), `{name: c}`, master},
		{
			"a variable of its own goes first", "empty", ptr.To(true), `{env: [{name: KUBERNETES_PORT, value: own $(KUBERNETES_SERVICE_HOST)}]}`,
			append([]string{"KUBERNETES_PORT=own 10.0.0.1"}, master[1:]...),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := testPod()
			pod.Namespace, pod.Spec.EnableServiceLinks = tc.namespace, tc.links
			f := objects()
			f.services = services
			out, err := resolve(t, f, pod, tc.container)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, variables(out)); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("its own service before the API server of the same name", func(t *testing.T) {
		pod := testPod()
		pod.Namespace = "own"
		f := objects()
		f.services = services
		out, err := resolve(t, f, pod, `{name: c}`)
		if err != nil {
			t.Fatal(err)
		}
		if got := variables(out); !strings.Contains(strings.Join(got, " "), "KUBERNETES_SERVICE_HOST=10.0.0.7") {
			t.Errorf("environment %q, want the pod's own service", got)
		}
	})
}

func TestStaticPodDoesNotWaitForServices(t *testing.T) {
	f := objects()
	f.err = fmt.Errorf("services: %w", errdefs.ErrUnavailable)
	pod := testPod()
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	out, err := resolve(t, f, pod, `{env: [{name: A, value: "1"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"A=1"}, variables(out)); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}
