// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// configHash is the annotation of a mirror pod with the UID of its static pod.
const configHash = "kubernetes.io/config.hash"

// restartNodeWith restarts tombolo node with more flags, each of which wins over an earlier one, until the end of the test.
func (k *tester) restartNodeWith(flags ...string) {
	k.Helper()
	before := k.nodeCommand
	k.Cleanup(func() {
		k.nodeCommand = before
		k.killNode(k.T)
		k.restartNode(k.T)
	})
	k.nodeCommand = slices.Concat(before, flags)
	k.killNode(k.T)
	k.restartNode(k.T)
}

// manifest is a version of a static pod. It marks each start of the version and each stop.
func (k *tester) manifest(name, version string) []byte {
	k.Helper()
	pod := k.pod(name, fmt.Sprintf(`trap "echo x >> /marks/%[1]s-term; exit 0" TERM; echo here I am; echo x >> /marks/%[1]s-%[2]s; sleep 1d & while :; do wait; done`,
		name, version), grace(20))
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	text, err := json.Marshal(pod)
	must(k.T, err)
	return text
}

// staticPod is a static pod as its mirror pod shows it.
type staticPod struct {
	name    string
	uid     types.UID
	mirror  *v1.Pod
	running map[string]string
}

// awaitMirror waits until the API shows the static pod, or another version of it than that of but, as Ready.
func (k *tester) awaitMirror(name string, but types.UID) staticPod {
	k.Helper()
	s := staticPod{name: name}
	eventually(k.T, usual, "a mirror pod of "+name+" that is Ready", func() (err error) {
		s.mirror, err = k.client().CoreV1().Pods(k.namespace).Get(k.Context(), name+"-"+k.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.uid = types.UID(s.mirror.Annotations[configHash])
		if s.mirror.Annotations[v1.MirrorPodAnnotationKey] == "" || s.uid == "" {
			return fmt.Errorf("it is no mirror pod: %v", s.mirror.Annotations)
		}
		if s.uid == but || s.mirror.DeletionTimestamp != nil {
			return errNotYet
		}
		return ready(s.mirror)
	})
	if s.running = k.running(k.T, s.uid); len(s.running) != 1 {
		k.Errorf("containers %v of static pod %s", s.running, name)
	}
	return s
}

// requireSame fails if a static pod was started more than once, told to stop, or is shown as if it had been.
func (k *tester) requireSame(s staticPod, version string) {
	k.Helper()
	if starts, stops := k.lines(s.name+"-"+version), k.lines(s.name+"-term"); starts != 1 || stops != 0 {
		k.Errorf("static pod %s was started %d times and told to stop %d times", s.name, starts, stops)
	}
	if now := k.running(k.T, s.uid); len(now) != 1 || now["main"] != s.running["main"] {
		k.Errorf("static pod %s: containers %v, were %v", s.name, now, s.running)
	}
	for _, c := range s.mirror.Status.ContainerStatuses {
		if c.RestartCount != 0 {
			k.Errorf("static pod %s: %d restarts are told", s.name, c.RestartCount)
		}
	}
}

// awaitNoMirror waits until a static pod has ended: nothing of it is on the host, and the API does not show it.
func (k *tester) awaitNoMirror(s staticPod) {
	k.Helper()
	k.awaitCollected(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: s.name, UID: s.uid}})
	eventually(k.T, usual, "the mirror pod of "+s.name+" is gone", func() error {
		_, err := k.client().CoreV1().Pods(k.namespace).Get(k.Context(), s.mirror.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errNotYet
	})
}

// staticPodsLiveAsTheirFilesDo, with the API and without.
func staticPodsLiveAsTheirFilesDo(k *tester) {
	dir := k.TempDir()
	file := func(name string) string { return filepath.Join(dir, name+".json") }
	write := func(name, version string) { must(k.T, os.WriteFile(file(name), k.manifest(name, version), 0o600)) }
	service, err := k.client().CoreV1().Services(metav1.NamespaceDefault).Get(k.Context(), "kubernetes", metav1.GetOptions{})
	must(k.T, err)
	api, kubeconfig := k.gateAPI()
	k.restartNodeWith("--pod-manifest-path", dir, "--kubeconfig", kubeconfig, "--cluster-id", string(service.UID))

	write("still", "one")
	still := k.awaitMirror("still", "")
	if got := k.kubectl("logs", still.mirror.Name); got != "here I am\n" {
		k.Errorf("kubectl logs: %q", got)
	}
	if got := k.kubectl("exec", still.mirror.Name, "--", "cat", "/marks/still-one"); got != "x\n" {
		k.Errorf("kubectl exec: %q", got)
	}
	k.kubectl("delete", "pod", still.mirror.Name, "--wait=false")
	old := still.mirror.UID
	eventually(k.T, usual, "another mirror pod", func() error {
		if still = k.awaitMirror("still", ""); still.mirror.UID == old {
			return errNotYet
		}
		return nil
	})
	k.requireSame(still, "one")

	// The API is away, then a node process begins without it.
	api.set(true)
	write("second", "one")
	k.awaitMark("second-one")
	k.killNode(k.T)
	k.restartNode(k.T)
	write("third", "one")
	k.awaitMark("third-one")
	api.set(false)
	for _, name := range []string{"still", "second", "third"} {
		k.requireSame(k.awaitMirror(name, ""), "one")
	}

	// Another version is another pod.
	write("still", "two")
	changed := k.awaitMirror("still", still.uid)
	if stops, starts := k.lines("still-term"), k.lines("still-two"); stops != 1 || starts != 1 {
		k.Errorf("the first version was told to stop %d times, and the second one started %d times", stops, starts)
	}
	k.awaitCollected(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "still", UID: still.uid}})
	must(k.T, os.Remove(file("still")))
	k.awaitNoMirror(changed)
	if n := k.lines("still-term"); n != 2 {
		k.Errorf("the pod was told to stop %d times", n)
	}
	second, third := k.awaitMirror("second", ""), k.awaitMirror("third", "")
	k.requireSame(second, "one")
	must(k.T, os.Remove(file("second")))
	must(k.T, os.Remove(file("third")))
	k.awaitNoMirror(second)
	k.awaitNoMirror(third)
}

// manifestPage is a web page with the manifest of a static pod.
type manifestPage struct {
	mu     sync.Mutex
	status int
	text   []byte
	reads  int
}

func (p *manifestPage) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reads++
	w.WriteHeader(p.status)
	_, _ = w.Write(p.text)
}

func (p *manifestPage) set(status int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.text, p.reads = status, []byte(text), 0
}

// awaitRead waits until the page has been read as it is now.
func (k *tester) awaitRead(p *manifestPage) {
	k.Helper()
	eventually(k.T, usual, "the page is read", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.reads == 0 {
			return errNotYet
		}
		return nil
	})
}

// staticPodLivesAsItsPageDoes: a page that cannot be read says nothing.
func staticPodLivesAsItsPageDoes(k *tester) {
	page := &manifestPage{}
	page.set(http.StatusOK, string(k.manifest("paged", "one")))
	listener, err := (&net.ListenConfig{}).Listen(k.Context(), "tcp", net.JoinHostPort(k.env.cluster.Address().String(), "0"))
	must(k.T, err)
	server := httptest.NewUnstartedServer(page)
	must(k.T, server.Listener.Close())
	server.Listener = listener
	server.Start()
	k.Cleanup(server.Close)
	k.restartNodeWith("--manifest-url", server.URL)
	paged := k.awaitMirror("paged", "")
	k.requireSame(paged, "one")

	page.set(http.StatusInternalServerError, "")
	k.killNode(k.T)
	k.restartNode(k.T)
	k.awaitRead(page)
	time.Sleep(3 * time.Second) // for what must not happen
	k.requireSame(paged, "one")

	page.set(http.StatusOK, string(k.manifest("paged", "two"))) // read within 20 s
	changed := k.awaitMirror("paged", paged.uid)
	if stops, starts := k.lines("paged-term"), k.lines("paged-two"); stops != 1 || starts != 1 {
		k.Errorf("the first version was told to stop %d times, and the second one started %d times", stops, starts)
	}
	page.set(http.StatusOK, `{"apiVersion": "v1", "kind": "PodList", "items": []}`)
	k.killNode(k.T) // the next one knows of the pod from the host and from the API only
	k.restartNode(k.T)
	k.awaitNoMirror(changed)
	if n := k.lines("paged-term"); n != 2 {
		k.Errorf("the pod was told to stop %d times", n)
	}
}
