// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/test/images"
)

const (
	pollInterval = 100 * time.Millisecond
	// usual is the deadline for what takes a second or two on an idle machine; tests may share the machine with a build.
	usual = 3 * time.Minute
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until check returns nil and fails the test with its last error otherwise.
func eventually(t *testing.T, timeout time.Duration, what string, check func() error) {
	t.Helper()
	begin := time.Now()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Since(begin) > timeout {
			t.Fatalf("%s: not within %v: %v", what, timeout, err)
		}
		time.Sleep(pollInterval)
	}
}

// tester is one test on one site, with a namespace of its own.
type tester struct {
	*testing.T
	*site
	namespace string
	// dir is a folder of the host for the test's pods.
	dir string
}

// on makes a namespace and a folder for the test. When the test has failed, it prints what became of its pods.
func on(t *testing.T, s *site) *tester {
	t.Helper()
	client := s.env.cluster.Client()
	ns, err := client.CoreV1().Namespaces().Create(t.Context(),
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-"}}, metav1.CreateOptions{})
	must(t, err)
	k := &tester{T: t, site: s, namespace: ns.Name, dir: filepath.Join(s.marks(), ns.Name)}
	must(t, os.Mkdir(k.dir, 0o755))
	must(t, os.Chmod(k.dir, 0o777)) // whatever the umask
	t.Cleanup(func() {
		if t.Failed() {
			k.report()
		}
		_ = client.CoreV1().Namespaces().Delete(context.Background(), k.namespace, metav1.DeleteOptions{})
	})
	s.env.awaitAccount(t, k.namespace)
	return k
}

// awaitAccount waits until a namespace has the service account without which there are no pods.
func (e *environment) awaitAccount(t *testing.T, namespace string) {
	t.Helper()
	eventually(t, usual, "a service account in "+namespace, func() error {
		_, err := e.cluster.Client().CoreV1().ServiceAccounts(namespace).Get(t.Context(), "default", metav1.GetOptions{})
		return err
	})
}

// part is the tester for a subtest, in the same namespace.
func (k *tester) part(t *testing.T) *tester {
	return &tester{T: t, site: k.site, namespace: k.namespace, dir: k.dir}
}

// report prints what helps to understand a failure.
func (k *tester) report() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"get", "pods", "-n", k.namespace, "-o", "yaml", "--show-managed-fields=false"},
		{"get", "events", "-n", k.namespace, "--sort-by=.lastTimestamp"},
		{"describe", "node", k.name},
	} {
		out, err := k.env.cluster.Kubectl(ctx, args...)
		k.Logf("$ kubectl %s\n%s%v", strings.Join(args, " "), out, err)
	}
	out, err := k.host.Crictl(ctx, "ps", "-a")
	k.Logf("$ crictl ps -a\n%s%v", out, err)
	k.Logf("logs of every part: %s", k.env.cluster.LogDir())
}

func (k *tester) client() kubernetes.Interface { return k.env.cluster.Client() }

// mark is the path of a file that the test's pods write to tell the test something.
func (k *tester) mark(name string) string { return filepath.Join(k.dir, name) }

// marked returns when a pod made the mark, the zero time if it has not.
func (k *tester) marked(name string) time.Time {
	info, err := os.Stat(k.mark(name))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// awaitMark waits for a mark.
func (k *tester) awaitMark(name string) {
	k.Helper()
	eventually(k.T, usual, "the mark "+name, func() error {
		_, err := os.Stat(k.mark(name))
		return err
	})
}

// awaitLines waits until a mark has so many lines: a container runs a moment before its program does anything.
func (k *tester) awaitLines(name string, n int) {
	k.Helper()
	eventually(k.T, usual, fmt.Sprintf("%d lines of the mark %s", n, name), func() error {
		if got := k.lines(name); got < n {
			return fmt.Errorf("there are %d", got)
		}
		return nil
	})
}

// lines counts the lines of a mark.
func (k *tester) lines(name string) int {
	data, err := os.ReadFile(k.mark(name))
	if err != nil {
		return 0
	}
	return bytes.Count(data, []byte("\n"))
}

// put makes a mark for a pod.
func (k *tester) put(name string) {
	k.Helper()
	must(k.T, os.WriteFile(k.mark(name), nil, 0o666))
}

// pod is a pod for the test's site with one container "main" that runs the shell script. /marks is the test's folder.
func (k *tester) pod(name, script string, edit ...func(*v1.Pod)) *v1.Pod {
	no, grace := false, int64(1)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: name},
		Spec: v1.PodSpec{
			NodeSelector:                  map[string]string{v1.LabelHostname: k.name},
			AutomountServiceAccountToken:  &no,
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []v1.Container{shell("main", script)},
			Volumes: []v1.Volume{{Name: "marks", VolumeSource: v1.VolumeSource{
				HostPath: &v1.HostPathVolumeSource{Path: k.dir},
			}}},
		},
	}
	for _, e := range edit {
		e(pod)
	}
	return pod
}

// shell is a container that runs a script.
func shell(name, script string) v1.Container {
	return v1.Container{
		Name: name, Image: images.Busybox, ImagePullPolicy: v1.PullIfNotPresent,
		Command:      []string{"sh", "-c", script},
		VolumeMounts: []v1.VolumeMount{{Name: "marks", MountPath: "/marks"}},
	}
}

func grace(seconds int64) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}

func restart(policy v1.RestartPolicy) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.RestartPolicy = policy }
}

func initContainer(name, script string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.InitContainers = append(p.Spec.InitContainers, shell(name, script)) }
}

func preStop(script string) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{
			Exec: &v1.ExecAction{Command: []string{"sh", "-c", script}},
		}}
	}
}

// create creates the pod in the API.
func (k *tester) create(pod *v1.Pod) *v1.Pod {
	k.Helper()
	created, err := k.client().CoreV1().Pods(k.namespace).Create(k.Context(), pod, metav1.CreateOptions{})
	must(k.T, err)
	return created
}

// get returns the newest version of the pod; NotFound also if the name belongs to another pod by now.
func (k *tester) get(pod *v1.Pod) (*v1.Pod, error) {
	got, err := k.client().CoreV1().Pods(k.namespace).Get(k.Context(), pod.Name, metav1.GetOptions{})
	if err == nil && got.UID != pod.UID {
		return nil, apierrors.NewNotFound(v1.Resource("pods"), pod.Name)
	}
	return got, err
}

// await waits until the pod fulfils the check and returns it.
func (k *tester) await(pod *v1.Pod, timeout time.Duration, what string, check func(*v1.Pod) error) *v1.Pod {
	k.Helper()
	var last *v1.Pod
	eventually(k.T, timeout, "pod "+pod.Name+" "+what, func() error {
		got, err := k.get(pod)
		if err != nil {
			return err
		}
		last = got
		return check(got)
	})
	return last
}

// awaitReady waits until the pod is Ready.
func (k *tester) awaitPodReady(pod *v1.Pod) *v1.Pod {
	k.Helper()
	return k.await(pod, usual, "is Ready", ready)
}

func ready(pod *v1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady && c.Status == v1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("it is %s, with containers %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
}

// awaitPhase waits until the pod has the phase.
func (k *tester) awaitPhase(pod *v1.Pod, phase v1.PodPhase) *v1.Pod {
	k.Helper()
	return k.await(pod, usual, "is "+string(phase), func(p *v1.Pod) error {
		if p.Status.Phase != phase {
			return fmt.Errorf("it is %s, with containers %+v", p.Status.Phase, p.Status.ContainerStatuses)
		}
		return nil
	})
}

// remove deletes the pod with its own grace period and returns without waiting.
func (k *tester) remove(pod *v1.Pod) {
	k.Helper()
	must(k.T, k.client().CoreV1().Pods(k.namespace).Delete(k.Context(), pod.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	}))
}

// forceRemove deletes the pod's object at once.
func (k *tester) forceRemove(pod *v1.Pod) {
	k.Helper()
	zero := int64(0)
	must(k.T, k.client().CoreV1().Pods(k.namespace).Delete(k.Context(), pod.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID)), GracePeriodSeconds: &zero,
	}))
}

// awaitGone waits until the pod's object is gone.
func (k *tester) awaitGone(pod *v1.Pod, timeout time.Duration) {
	k.Helper()
	eventually(k.T, timeout, "pod "+pod.Name+" is gone from the API", func() error {
		_, err := k.get(pod)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// containers are all container records of a pod on the host.
func (s *site) containers(t *testing.T, uid types.UID) []*runtimeapi.Container {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	resp, err := s.runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(uid)},
	}})
	must(t, err)
	return resp.GetContainers()
}

// running names the running containers of a pod, each with its id.
func (s *site) running(t *testing.T, uid types.UID) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, c := range s.containers(t, uid) {
		if c.GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		name := c.GetMetadata().GetName()
		if other, twice := out[name]; twice {
			t.Errorf("container %s of pod %s runs twice: %s and %s", name, uid, other, c.GetId())
		}
		out[name] = c.GetId()
	}
	return out
}

// sandboxes are all sandbox records of a pod on the host.
func (k *tester) sandboxes(pod *v1.Pod) []*runtimeapi.PodSandbox {
	k.Helper()
	resp, err := k.runtime.ListPodSandbox(k.Context(), &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(pod.UID)},
	}})
	must(k.T, err)
	return resp.GetItems()
}

// awaitCollected waits until nothing of the pod is left on the host: no container, no sandbox, no directory, no log.
func (k *tester) awaitCollected(pod *v1.Pod) {
	k.Helper()
	eventually(k.T, usual, "everything of pod "+pod.Name+" is removed from the host", func() error {
		if left := k.containers(k.T, pod.UID); len(left) > 0 {
			return fmt.Errorf("%d containers", len(left))
		}
		if left := k.sandboxes(pod); len(left) > 0 {
			return fmt.Errorf("%d sandboxes", len(left))
		}
		for _, pattern := range []string{
			filepath.Join(k.rootDir(), "pods", string(pod.UID)), filepath.Join(k.logsDir(), "*_"+string(pod.UID)),
		} {
			if left, _ := filepath.Glob(pattern); len(left) > 0 {
				return fmt.Errorf("%v", left)
			}
		}
		return nil
	})
}

// kubectl runs kubectl in the test's namespace and returns its output.
func (k *tester) kubectl(args ...string) string {
	k.Helper()
	out, err := k.tryKubectl(nil, args...)
	if err != nil {
		k.Fatal(err)
	}
	return out
}

// tryKubectl is kubectl with an input, and with an error instead of a failure.
func (k *tester) tryKubectl(stdin io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(k.Context(), 2*usual)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := k.kubectlCommand(ctx, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

func (k *tester) kubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	return k.env.cluster.KubectlCommand(ctx, append([]string{"-n", k.namespace}, args...)...)
}

// awaitEvent waits for an event about the pod whose reason is as given and whose message contains the text.
func (k *tester) awaitEvent(pod *v1.Pod, reason, text string) {
	k.Helper()
	eventually(k.T, usual, fmt.Sprintf("event %s %q of pod %s", reason, text, pod.Name), func() error {
		list, err := k.client().CoreV1().Events(k.namespace).List(k.Context(), metav1.ListOptions{
			FieldSelector: "involvedObject.uid=" + string(pod.UID),
		})
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range list.Items {
			if e.Reason == reason && strings.Contains(e.Message, text) {
				return nil
			}
			seen = append(seen, e.Reason+": "+e.Message)
		}
		return fmt.Errorf("there are only %q", seen)
	})
}

// errNotYet is a check's answer when there is nothing more to say.
var errNotYet = errors.New("not yet")

// goroutines asks tombolo host and tombolo node how many goroutines they have.
func (k *tester) goroutines() (host, node int) {
	k.Helper()
	const metric = "go_goroutines "
	find := func(text string) int {
		for line := range strings.Lines(text) {
			var n int
			if value, ok := strings.CutPrefix(line, metric); ok {
				_, err := fmt.Sscan(value, &n)
				must(k.T, err)
				return n
			}
		}
		k.Fatalf("no metric %s", metric)
		return 0
	}
	if k.hostHasMetrics() {
		host = find(k.hostMetrics())
	}
	return host, find(k.nodeMetrics())
}

// nodeMetrics are what tombolo node tells, by way of the API server.
func (k *tester) nodeMetrics() string {
	k.Helper()
	return k.kubectl("get", "--raw", "/api/v1/nodes/"+k.name+"/proxy/metrics")
}

// hostMetrics are what tombolo host tells.
func (k *tester) hostMetrics() string {
	k.Helper()
	ctx, cancel := context.WithTimeout(k.Context(), usual)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(k.host.Address().String(), hostMetricsPort)+"/metrics", nil)
	must(k.T, err)
	request.Close = true
	resp, err := http.DefaultClient.Do(request)
	must(k.T, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	must(k.T, err)
	return string(body)
}
