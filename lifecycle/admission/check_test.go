// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// parse reads a pod written as users write it.
func parse(t *testing.T, text string) *v1.Pod {
	t.Helper()
	pod := &v1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "\t", "  ")), pod); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return pod
}

// asStored is a pod that uses all that is supported, with what the API server adds to it.
const asStored = `
metadata: {name: p, namespace: default, uid: u, labels: {app: x}, annotations: {example.com/note: anything, tombolo.dev/prestop-on-exit: "false"}}
spec:
	nodeName: island
	restartPolicy: Always
	terminationGracePeriodSeconds: 30
	dnsPolicy: ClusterFirst
	dnsConfig: {options: [{name: ndots, value: "2"}]}
	hostname: web-0
	serviceAccountName: default
	serviceAccount: default
	automountServiceAccountToken: false
	securityContext: {}
	schedulerName: default-scheduler
	priority: 0
	preemptionPolicy: PreemptLowerPriority
	enableServiceLinks: true
	os: {name: linux}
	hostUsers: false
	shareProcessNamespace: false
	setHostnameAsFQDN: false
	nodeSelector: {kubernetes.io/os: linux}
	affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}}
	topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
	tolerations:
	- {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 300}
	volumes:
	- {name: scratch, emptyDir: {}}
	- {name: memory, emptyDir: {medium: Memory}}
	- {name: kube-api-access-x, projected: {defaultMode: 420, sources: [
	    {serviceAccountToken: {path: token, expirationSeconds: 3607}},
	    {configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}},
	    {downwardAPI: {items: [{path: namespace, fieldRef: {apiVersion: v1, fieldPath: metadata.namespace}}]}}]}}
	- {name: etc, hostPath: {path: /etc, type: ""}}
	initContainers:
	- {name: init, image: busybox, command: [sh], imagePullPolicy: Always, terminationMessagePath: /dev/termination-log, terminationMessagePolicy: File, resources: {}, volumeMounts: [{name: scratch, mountPath: /s}]}
	containers:
	- name: web
		image: busybox:1.36
		imagePullPolicy: IfNotPresent
		command: [sh, -c]
		args: [sleep 1d]
		workingDir: /tmp
		stdin: true
		stdinOnce: true
		tty: true
		ports: [{name: http, containerPort: 80, protocol: TCP}]
		env: [{name: A, value: b}]
		resources: {requests: {cpu: 100m, memory: 1Mi, ephemeral-storage: 1Mi}, limits: {cpu: "1", memory: 1Gi, nvidia.com/gpu: "0"}}
		resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}]
		lifecycle: {preStop: {exec: {command: [sleep, "3"]}}}
		terminationMessagePath: /dev/termination-log
		terminationMessagePolicy: FallbackToLogsOnError
		securityContext: {privileged: false, allowPrivilegeEscalation: true}
		volumeMounts:
		- {name: scratch, mountPath: /s, recursiveReadOnly: Disabled}
		- {name: etc, mountPath: /host/etc, readOnly: true, mountPropagation: HostToContainer}
`

func TestCheckAcceptsWhatIsSupportedAsTheAPIServerStoresIt(t *testing.T) {
	if r := Check(parse(t, asStored), Facts{MaxPods: 110}); r != nil {
		t.Errorf("refused: %s: %s", r.Reason, r.Message)
	}
}

func TestCheckNamesTheFieldAndTheRemedy(t *testing.T) {
	for _, tc := range []struct{ spec, field, remedy string }{
		{`{containers: [{name: a}, {name: b, resources: {claims: [{name: d}]}}]}`, "spec.containers[1].resources.claims", "remove them"},
		{`{initContainers: [{name: side, restartPolicy: Always, lifecycle: {postStart: {tcpSocket: {port: 1}}}}], containers: [{name: a}]}`,
			"spec.initContainers[0].lifecycle.postStart.tcpSocket", "use exec or httpGet"},
		{`{ephemeralContainers: [{name: d, targetContainerName: a, resources: {claims: [{name: b}]}}], containers: [{name: a}]}`,
			"spec.ephemeralContainers[0].resources.claims", "remove them"},
		{`{containers: [{name: a, resources: {limits: {nvidia.com/gpu: 1}}}]}`,
			"spec.containers[0].resources.limits[nvidia.com/gpu]", "no such resource"},
		{`{containers: [{name: a, lifecycle: {preStop: {tcpSocket: {port: 3}}}}]}`,
			"spec.containers[0].lifecycle.preStop.tcpSocket", "use exec or httpGet"},
		{`{resourceClaims: [{name: x}], containers: [{name: a}]}`, "spec.resourceClaims", "remove them"},
	} {
		pod := parse(t, "spec: "+tc.spec)
		r := Check(pod, Facts{})
		if r == nil {
			t.Errorf("%s was accepted", tc.spec)
			continue
		}
		if r.Reason != "UnsupportedPodSpec" || r.Field != tc.field || !strings.Contains(r.Message, tc.field+" (") || !strings.Contains(r.Message, tc.remedy) {
			t.Errorf("%s\n%+v\nwant field %s and remedy %q", tc.spec, *r, tc.field, tc.remedy)
		}
	}
}

func TestCheckListsEveryFieldInTheWay(t *testing.T) {
	pod := parse(t, `
metadata: {annotations: {tombolo.dev/prestop-on-exit: "yes"}}
spec:
	resourceClaims: [{name: c}]
	volumes: [{name: s, nfs: {server: x}}]
	containers: [{name: a, stdin: true, resources: {claims: [{name: d}]}}, {name: b, ports: [{hostPort: 1}]}]
`)
	const want = "this node cannot run the pod as it is written: " +
		"metadata.annotations[tombolo.dev/prestop-on-exit] (with true, preStop also runs after a container ended by itself; use true or false); " +
		"spec.volumes[0].nfs (mount it on the host and use a hostPath); " +
		"spec.containers[0].resources.claims (devices are not allocated; remove them); " +
		"spec.resourceClaims (devices are not allocated; remove them)"
	r := Check(pod, Facts{})
	if r == nil {
		t.Fatal("accepted")
	}
	if diff := cmp.Diff(want, r.Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
}

func TestMessageFitsIntoAnEventAndTellsHowMuchIsLeftOut(t *testing.T) {
	pod := &v1.Pod{}
	for i := range 60 {
		pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{
			Name: fmt.Sprint(i), Resources: v1.ResourceRequirements{Claims: []v1.ResourceClaim{{}}}})
	}
	message := Check(pod, Facts{}).Message
	if len(message) > maxMessage {
		t.Errorf("%d bytes, more than %d", len(message), maxMessage)
	}
	listed := strings.Count(message, "resources.claims")
	if want := fmt.Sprintf("; and %d more fields", 60-listed); listed < 10 || !strings.HasSuffix(message, want) {
		t.Errorf("%d fields are listed, and the message does not end with %q: %s", listed, want, message)
	}
}

func TestCheckComparesThePodWithTheNode(t *testing.T) {
	node := &v1.Node{}
	if err := yaml.Unmarshal([]byte(`
metadata: {name: island, labels: {kubernetes.io/os: linux, zone: sea}}
spec: {taints: [{key: closed, effect: NoExecute}, {key: full, effect: NoSchedule}]}
status: {allocatable: {cpu: "2", memory: 1Gi, ephemeral-storage: 10Gi, pods: "3"}}
`), node); err != nil {
		t.Fatal(err)
	}
	other := func(uid, cpu, memory string) *v1.Pod {
		p := parse(t, fmt.Sprintf(`spec: {containers: [{name: a, resources: {requests: {cpu: %s, memory: %s}}}]}`, cpu, memory))
		p.UID = types.UID(uid)
		return p
	}
	const tolerate = `tolerations: [{key: closed, operator: Exists}], `
	for _, tc := range []struct {
		name, spec, labels string
		active             []*v1.Pod
		maxPods            int
		reason, message    string
	}{
		{name: "a pod that fits", spec: tolerate + `nodeSelector: {zone: sea}, containers: [{name: a, resources: {requests: {cpu: 500m, memory: 1Mi}}}]`,
			active: []*v1.Pod{other("1", "1", "1Mi"), other("u", "2", "1Gi")}}, // "u" is the pod itself
		{name: "too many pods for the node", spec: tolerate + `containers: [{name: a}]`,
			active: []*v1.Pod{other("1", "0", "0"), other("2", "0", "0"), other("3", "0", "0")},
			reason: "OutOfpods", message: "Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"},
		{name: "too many pods for the flag", spec: tolerate + `containers: [{name: a}]`, maxPods: 1, active: []*v1.Pod{other("1", "0", "0")},
			reason: "OutOfpods", message: "Node didn't have enough resource: pods, requested: 1, used: 1, capacity: 1"},
		{name: "not enough cpu", spec: tolerate + `containers: [{name: a, resources: {requests: {cpu: 600m}}}, {name: b, resources: {requests: {cpu: 600m}}}]`,
			active: []*v1.Pod{other("1", "1", "1Mi")},
			reason: "OutOfcpu", message: "Node didn't have enough resource: cpu, requested: 1200, used: 1000, capacity: 2000"},
		{name: "not enough memory", spec: tolerate + `containers: [{name: a, resources: {requests: {memory: 1Gi}}}]`,
			active: []*v1.Pod{other("1", "0", "1Mi")},
			reason: "OutOfmemory", message: "Node didn't have enough resource: memory, requested: 1073741824, used: 1048576, capacity: 1073741824"},
		{name: "not enough disk", spec: tolerate + `containers: [{name: a, resources: {requests: {ephemeral-storage: 11Gi}}}]`,
			reason: "OutOfephemeral-storage", message: "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240"},
		{name: "another zone", spec: tolerate + `nodeSelector: {zone: land}, containers: [{name: a}]`,
			reason: "NodeAffinity", message: "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"},
		{name: "another node", spec: tolerate + `nodeName: mainland, containers: [{name: a}]`,
			reason: "NodeName", message: "Predicate NodeName failed: node(s) didn't match the requested node name"},
		{name: "a taint", spec: `containers: [{name: a}]`,
			reason: "TaintToleration", message: "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"},
		{name: "another operating system", spec: tolerate + `os: {name: windows}, containers: [{name: a}]`,
			reason: "PodOSNotSupported", message: "Failed to admit pod as the OS field doesn't match node OS"},
		{name: "a label of another operating system", spec: tolerate + `containers: [{name: a}]`, labels: `kubernetes.io/os: windows`,
			reason: "PodOSSelectorNodeLabelDoesNotMatch", message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := parse(t, fmt.Sprintf("metadata: {uid: u, labels: {%s}}\nspec: {%s}", tc.labels, tc.spec))
			r := Check(pod, Facts{Node: node, ActivePods: tc.active, MaxPods: tc.maxPods})
			if r == nil {
				r = &Rejection{}
			}
			if r.Reason != tc.reason || r.Message != tc.message {
				t.Errorf("got  %s: %s\nwant %s: %s", r.Reason, r.Message, tc.reason, tc.message)
			}
		})
	}
}

func TestCheckRefusesForNothingThatIsNotKnownOfTheNode(t *testing.T) {
	pod := parse(t, `spec: {nodeSelector: {zone: land}, containers: [{name: a, resources: {requests: {cpu: 600m}}}]}`)
	if r := Check(pod, Facts{}); r != nil {
		t.Errorf("without a node object: %+v", *r)
	}
	node := &v1.Node{}
	node.Labels = map[string]string{"zone": "land"}
	if r := Check(pod, Facts{Node: node}); r != nil {
		t.Errorf("with a node object that has no status yet: %+v", *r)
	}
}

// FuzzCheck feeds pods that the API server would never let through.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(strings.ReplaceAll(asStored, "\t", "  ")))
	f.Add([]byte(`{"spec":{"containers":[{"resources":{"limits":{"a/b":"1e99"}}}],"ephemeralContainers":[{}]}}`))
	f.Add([]byte(`{"spec":{"overhead":{"cpu":"0"},"containers":null,"volumes":[{}]},"metadata":{"annotations":{"tombolo.dev/prestop-on-exit":""}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		pod := &v1.Pod{}
		if yaml.Unmarshal(text, pod) != nil {
			return
		}
		if problems := CheckUpdate(pod, pod); len(problems) > 0 {
			t.Errorf("no change, and yet: %v", problems)
		}
		r := Check(pod, Facts{MaxPods: 110})
		if r != nil && r.Reason == ReasonUnsupported && (r.Field == "" || !strings.Contains(r.Message, "(")) {
			t.Errorf("%+v does not name a field", *r)
		}
	})
}
