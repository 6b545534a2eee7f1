// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package staticpods

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/lifecycle"
	"github.com/tombolo-dev/tombolo/provider/statussink"
)

const web = `
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - name: main
    image: nginx:1
    ports: [{containerPort: 80}]
    resources: {limits: {cpu: 1}}
    readinessProbe: {httpGet: {port: 80}}
  volumes: [{name: scratch}]
`

func doc(text string) document {
	return document{kind: "file", origin: "/manifests/web.yaml", data: []byte(text)}
}

func TestManifestBecomesAPodOfTheNodeWithTheDefaultsOfTheAPIServer(t *testing.T) {
	pods, err := doc(web).pods("Edge-1")
	if err != nil || len(pods) != 1 {
		t.Fatalf("pods = %v, %v", pods, err)
	}
	pod := pods[0]
	if pod.Name != "web-edge-1" || pod.Namespace != "default" || pod.Spec.NodeName != "Edge-1" || pod.UID == "" {
		t.Errorf("pod %s/%s on %q with UID %q", pod.Namespace, pod.Name, pod.Spec.NodeName, pod.UID)
	}
	if pod.Annotations[AnnotationHash] != string(pod.UID) || pod.Annotations[AnnotationSource] != "file" {
		t.Errorf("annotations %v", pod.Annotations)
	}
	c := pod.Spec.Containers[0]
	for what, ok := range map[string]bool{
		"restart policy": pod.Spec.RestartPolicy == v1.RestartPolicyAlways,
		"DNS policy":     pod.Spec.DNSPolicy == v1.DNSClusterFirst,
		"grace period":   *pod.Spec.TerminationGracePeriodSeconds == 30,
		"service links":  *pod.Spec.EnableServiceLinks,
		"volume":         pod.Spec.Volumes[0].EmptyDir != nil,
		"pull policy":    c.ImagePullPolicy == v1.PullIfNotPresent,
		"message path":   c.TerminationMessagePath == "/dev/termination-log",
		"protocol":       c.Ports[0].Protocol == v1.ProtocolTCP && c.Ports[0].HostPort == 0,
		"request":        c.Resources.Requests.Cpu().String() == "1",
		"probe":          c.ReadinessProbe.PeriodSeconds == 10 && c.ReadinessProbe.TimeoutSeconds == 1 && c.ReadinessProbe.HTTPGet.Path == "/",
	} {
		if !ok {
			t.Errorf("default of %s is missing: %+v", what, pod.Spec)
		}
	}
}

func TestPullPolicyFollowsTheTag(t *testing.T) {
	for image, want := range map[string]v1.PullPolicy{
		"nginx": v1.PullAlways, "nginx:latest": v1.PullAlways, "registry:5000/a/b": v1.PullAlways, "nginx:1": v1.PullIfNotPresent,
		"nginx@sha256:" + strings.Repeat("a", 64): v1.PullIfNotPresent,
	} {
		if got := pullPolicy(image); got != want {
			t.Errorf("pullPolicy(%q) = %s, want %s", image, got, want)
		}
	}
}

func TestUIDChangesWithContentNodeAndOriginButNotWithForm(t *testing.T) {
	uid := func(d document, node string) types.UID {
		pods, err := d.pods(node)
		if err != nil {
			t.Fatal(err)
		}
		return pods[0].UID
	}
	base := uid(doc(web), "n")
	if got := uid(doc("# a comment\n"+web), "n"); got != base {
		t.Error("a comment makes another pod")
	}
	elsewhere := doc(web)
	elsewhere.origin = "/manifests/other.yaml"
	for what, other := range map[string]types.UID{
		"content": uid(doc(strings.Replace(web, "nginx:1", "nginx:2", 1)), "n"), "node": uid(doc(web), "m"), "origin": uid(elsewhere, "n"),
	} {
		if other == base {
			t.Errorf("another %s gives the same UID", what)
		}
	}
}

func TestBadManifestsNameTheField(t *testing.T) {
	for name, tc := range map[string]struct{ from, to, want string }{
		"typing error":    {"containers:", "containerz:", `unknown field "spec.containerz"`},
		"no image":        {"image: nginx:1", "image: ''", "spec.containers[0].image: Required"},
		"no name":         {"name: web,", "", "metadata.name: Required"},
		"other kind":      {"kind: Pod", "kind: Service", ""},
		"secret volume":   {"{name: scratch}", "{name: s, secret: {secretName: x}}", "spec.volumes[0].secret: Forbidden"},
		"service account": {"spec:\n", "spec:\n  serviceAccountName: x\n", "spec.serviceAccountName: Forbidden"},
		"not YAML":        {"kind: Pod", "kind: [", "reading YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			pods, err := doc(strings.Replace(web, tc.from, tc.to, 1)).pods("n")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("pods = %v, %v, want an error with %q", pods, err, tc.want)
			}
		})
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(web))
	f.Add([]byte(`{"kind":"PodList","apiVersion":"v1","items":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := document{kind: "file", origin: "x", data: data}.pods("n")
		for _, pod := range pods {
			if err == nil && (pod.UID == "" || len(pod.Spec.Containers) == 0) {
				t.Errorf("a pod of no use: %+v", pod)
			}
		}
	})
}

// newFeed is a feed of a directory.
func newFeed(t *testing.T, dir string) (*feed, *[]string) {
	t.Helper()
	var complaints []string
	return &feed{
		name: dir, origin: &directory{path: dir, clock: clock.RealClock{}}, node: "n", clock: clock.RealClock{},
		log: slog.New(slog.DiscardHandler), good: map[string][]*v1.Pod{}, said: map[string]string{}, pods: map[types.UID]*v1.Pod{},
		complain: func(origin string, err error) {
			complaints = append(complaints, filepath.Base(origin)+": "+err.Error())
		},
	}, &complaints
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func polled(f *feed) (out []string) {
	for _, e := range f.poll(context.Background()) {
		text := e.Type.String()
		if e.Pod != nil {
			text += " " + e.Pod.Name
		}
		out = append(out, text)
	}
	return out
}

func TestDirectoryIsFollowed(t *testing.T) {
	dir := t.TempDir()
	f, complaints := newFeed(t, dir)
	path := filepath.Join(dir, "web.yaml")
	write(t, path, web)
	write(t, filepath.Join(dir, ".hidden.yaml"), web)
	write(t, filepath.Join(dir, "bad.yaml"), "kind: Pod\napiVersion: v1\nspec: {}\n")
	expect := func(what string, want ...string) {
		t.Helper()
		if got := polled(f); !slices.Equal(got, want) {
			t.Errorf("%s: events %v, want %v", what, got, want)
		}
	}
	expect("first", "added web-n", "synced")
	expect("again")
	if len(*complaints) != 1 || !strings.HasPrefix((*complaints)[0], "bad.yaml: ") {
		t.Errorf("complaints %q, want one of bad.yaml", *complaints)
	}
	write(t, path, strings.Replace(web, "nginx:1", "nginx:2", 1))
	expect("changed", "removed web-n", "added web-n")
	write(t, path, "half a manif")
	expect("broken: the last valid version stays")
	write(t, filepath.Join(dir, "zz.yaml"), web)
	expect("a second pod of the name is refused")
	if last := (*complaints)[len(*complaints)-1]; !strings.Contains(last, "web.yaml already") {
		t.Errorf("complaint %q, want one that names the other manifest", last)
	}
	said := len(*complaints)
	expect("again refused")
	if n := len(*complaints) - said; n != 0 {
		t.Errorf("%d complaints of what was complained of: %q", n, *complaints)
	}
	if err := os.Rename(dir, dir+"-gone"); err != nil {
		t.Fatal(err)
	}
	expect("the directory vanished: that proves nothing")
	if err := os.Rename(dir+"-gone", dir); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), os.Remove(filepath.Join(dir, "zz.yaml"))); err != nil {
		t.Fatal(err)
	}
	expect("removed", "removed web-n")
}

func TestDirectoryThatNeverWasIsEmpty(t *testing.T) {
	f, complaints := newFeed(t, filepath.Join(t.TempDir(), "none"))
	if got := polled(f); !slices.Equal(got, []string{"synced"}) || len(*complaints) != 1 {
		t.Errorf("events %v with complaints %q, want synced and one complaint", got, *complaints)
	}
}

func TestDirectoryChangeIsSeenAtOnce(t *testing.T) {
	dir := t.TempDir()
	f, _ := newFeed(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan lifecycle.PodEvent, 10)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.run(ctx, func(_ context.Context, e lifecycle.PodEvent) error { events <- e; return nil })
	}()
	if e := <-events; e.Type != lifecycle.SourceSynced {
		t.Errorf("first event %s", e.Type)
	}
	write(t, filepath.Join(dir, "web.yaml"), web)
	select {
	case e := <-events:
		if e.Type != lifecycle.PodAdded {
			t.Errorf("event %s, want added", e.Type)
		}
	case <-time.After(readPeriod / 2):
		t.Error("the new manifest was not seen before the next scan")
	}
	cancel()
	<-done
}

// fakeSource is the API's pods.
type fakeSource struct{ events chan lifecycle.PodEvent }

func (s *fakeSource) Run(ctx context.Context)           { <-ctx.Done() }
func (s *fakeSource) Events() <-chan lifecycle.PodEvent { return s.events }
func (s *fakeSource) Live(context.Context, string, string) (*v1.Pod, error) {
	return nil, errdefs.ErrNotFound
}

// scripted is an origin of which the test says what it holds.
type scripted struct {
	mu   sync.Mutex
	text string
}

func (s *scripted) set(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

func (s *scripted) read(context.Context) ([]document, map[string]error, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == "" {
		return nil, nil, nil
	}
	return []document{doc(s.text)}, nil, nil
}
func (s *scripted) hint(ctx context.Context, _ func()) { <-ctx.Done() }

// world is a Mux on a fake API.
type world struct {
	t      *testing.T
	client *fake.Clientset
	api    *fakeSource
	origin *scripted
	mux    *Mux
	runs   atomic.Bool // whatever was there may run
}

func inWorld(t *testing.T, body func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, client: fake.NewClientset(), api: &fakeSource{events: make(chan lifecycle.PodEvent)}, origin: &scripted{text: web},
		}
		w.client.PrependReactor("create", "pods", func(a clientgotesting.Action) (bool, runtime.Object, error) {
			pod := a.(clientgotesting.CreateAction).GetObject().(*v1.Pod)
			pod.UID = types.UID("mirror-" + pod.Annotations[AnnotationMirror][:4])
			return false, nil, nil
		})
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}}
		w.mux = New(Options{
			API: w.api, NodeName: "n", Node: func() *v1.Node { return node }, MayRun: func(types.UID) bool { return w.runs.Load() },
			Client: w.client, Recorder: record.NewFakeRecorder(100), Clock: clock.RealClock{},
		})
		f, _ := newFeed(t, "scripted")
		f.origin = w.origin
		w.mux.feeds = []*feed{f}
		w.mux.unready.Store(2)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.mux.Run(ctx) }()
		body(w)
		cancel()
		<-done
	})
}

// events takes what comes without a further change.
func (w *world) events() (out []string) {
	for {
		synctest.Wait()
		select {
		case e := <-w.mux.Events():
			text := e.Type.String()
			if e.Pod != nil {
				text += " " + e.Pod.Name
			}
			out = append(out, text)
		default:
			return out
		}
	}
}

func (w *world) mirror() *v1.Pod {
	pod, err := w.client.CoreV1().Pods("default").Get(context.Background(), "web-n", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return pod
}

// show lets the watch tell of the mirror pod.
func (w *world) show(t lifecycle.PodEventType, pod *v1.Pod) []string {
	w.api.events <- lifecycle.PodEvent{Type: t, Pod: pod}
	return w.events()
}

func (w *world) expect(what string, got []string, want ...string) {
	w.t.Helper()
	if !slices.Equal(got, want) {
		w.t.Errorf("%s: events %v, want %v", what, got, want)
	}
}

func TestStaticPodRunsWithoutTheAPIAndTheGateWaitsForEverySource(t *testing.T) {
	inWorld(t, func(w *world) {
		w.expect("before the API", w.events(), "added web-n")
		w.api.events <- lifecycle.PodEvent{Type: lifecycle.SourceSynced}
		w.expect("API synced", w.events(), "synced")
	})
}

func TestMirrorPodIsMadeAndMadeAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.events()
		m := w.mirror()
		if m == nil {
			t.Fatal("no mirror pod")
		}
		if !w.mux.mirrors.knows(nameOf(m), staticUID(m)) || len(m.OwnerReferences) != 1 || m.OwnerReferences[0].UID != "node-uid" || m.Spec.NodeName != "n" {
			t.Errorf("mirror pod %+v", m)
		}
		w.expect("mirror pod shown", w.show(lifecycle.PodAdded, m), "reconciled web-n")
		deleting := m.DeepCopy()
		deleting.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		w.show(lifecycle.PodUpdated, deleting)
		if err := w.client.CoreV1().Pods("default").Delete(context.Background(), "web-n", metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		w.expect("mirror pod deleted", w.show(lifecycle.PodRemoved, m))
		time.Sleep(mirrorPeriod)
		synctest.Wait()
		if w.mirror() == nil {
			t.Error("the mirror pod was not made again")
		}
	})
}

func TestMirrorPodStaysUntilTheStaticPodHasStopped(t *testing.T) {
	inWorld(t, func(w *world) {
		w.events()
		m := w.mirror()
		w.show(lifecycle.PodAdded, m)
		w.runs.Store(true)
		w.origin.set("")
		time.Sleep(readPeriod)
		w.expect("manifest gone", w.events(), "removed web-n")
		time.Sleep(time.Minute)
		if w.mirror() == nil {
			t.Error("the mirror pod is gone while containers run")
		}
		synctest.Wait()
		sink := &Sink{Base: statussink.New(w.client, "n"), Mux: w.mux}
		if got, err := sink.GetPod(t.Context(), "default", "web-n"); err != nil || got.UID != staticUID(m) {
			t.Errorf("GetPod = %v, %v; want the UID of the static pod that went away", got, err)
		}
		w.runs.Store(false)
		w.show(lifecycle.PodUpdated, m) // its status is about to be written
		ended, err := sink.PatchPodStatus(t.Context(), nameOf(m), staticUID(m), "", []byte(`{"phase":"Failed"}`))
		if err != nil || w.mirror().Status.Phase != v1.PodFailed {
			t.Fatalf("PatchPodStatus = %v, %v; want how it ended to be shown", ended, err)
		}
		w.show(lifecycle.PodUpdated, w.mirror())
		if w.mirror() != nil {
			t.Error("the mirror pod stays after it showed the end")
		}
	})
}

func TestMirrorPodGoesSoonIfNobodyTellsHowItsStaticPodEnded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.events()
		w.show(lifecycle.PodAdded, w.mirror())
		w.origin.set("")
		time.Sleep(readPeriod)
		w.events()
		time.Sleep(2 * waitPeriod)
		synctest.Wait()
		if w.mirror() != nil {
			t.Error("the mirror pod stays")
		}
	})
}

func TestStaticPodThatComesBackGetsANewMirrorPodInPlaceOfTheOneThatShowsItsEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		w.runs.Store(true)
		w.events()
		m := w.mirror()
		w.show(lifecycle.PodAdded, m)
		w.origin.set("")
		time.Sleep(readPeriod)
		w.expect("moved away", w.events(), "removed web-n")
		w.origin.set(web)
		time.Sleep(readPeriod)
		w.expect("moved back while it stops", w.events(), "added web-n")
		sink := &Sink{Base: statussink.New(w.client, "n"), Mux: w.mux}
		w.runs.Store(false)
		if _, err := sink.PatchPodStatus(t.Context(), nameOf(m), staticUID(m), "", []byte(`{"phase":"Failed"}`)); err != nil {
			t.Fatal(err)
		}
		w.show(lifecycle.PodUpdated, w.mirror())
		time.Sleep(waitPeriod)
		if m := w.mirror(); m == nil || m.Status.Phase != v1.PodFailed {
			t.Fatalf("mirror pod %+v; want it to show the end until the pod runs again", m)
		}
		w.runs.Store(true)
		time.Sleep(2 * waitPeriod)
		synctest.Wait()
		w.show(lifecycle.PodRemoved, m)
		m = w.mirror()
		if m == nil || m.Status.Phase != "" {
			t.Fatalf("mirror pod %+v; want a new one", m)
		}
		// It ends by itself, which its mirror pod goes on to show.
		m.UID = "another-mirror"
		m.Status.Phase = v1.PodSucceeded
		w.show(lifecycle.PodAdded, m)
		w.client.ClearActions()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, a := range w.client.Actions() {
			if a.GetVerb() == "delete" {
				t.Error("the mirror pod of a later end was deleted")
			}
		}
	})
}

func TestMirrorPodOfAStaticPodThatEndedByItselfStays(t *testing.T) {
	inWorld(t, func(w *world) {
		w.runs.Store(true) // nothing is known yet after a restart of the process
		w.events()
		m := w.mirror()
		m.Status.Phase = v1.PodSucceeded
		w.show(lifecycle.PodAdded, m)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, a := range w.client.Actions() {
			if a.GetVerb() == "delete" {
				t.Error("the mirror pod was deleted")
			}
		}
	})
}

func TestForeignMirrorPodIsDeletedAndAPodOfTheAPICannotClaimToBeStatic(t *testing.T) {
	inWorld(t, func(w *world) {
		w.events()
		left := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "left-n", UID: "m9", Annotations: map[string]string{AnnotationMirror: "old"},
		}}
		if err := w.client.Tracker().Add(left); err != nil {
			t.Fatal(err)
		}
		w.expect("a mirror pod of an earlier process is not run", w.show(lifecycle.PodAdded, left))
		if _, err := w.client.CoreV1().Pods("default").Get(context.Background(), "left-n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("it is still there: %v", err)
		}
		claims := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "u", Annotations: map[string]string{AnnotationSource: "file"}}}
		if got := honest(claims); got.Annotations[AnnotationSource] != "api" || claims.Annotations[AnnotationSource] != "file" {
			t.Errorf("source %q, want api in a copy", got.Annotations[AnnotationSource])
		}
	})
}

func TestStatusOfAStaticPodGoesToItsMirrorPod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.events()
		m := w.mirror()
		w.show(lifecycle.PodAdded, m)
		sink := &Sink{Base: statussink.New(w.client, "n"), Mux: w.mux}
		static := types.UID(m.Annotations[AnnotationMirror])
		name := types.NamespacedName{Namespace: "default", Name: "web-n"}
		got, err := sink.GetPod(context.Background(), name.Namespace, name.Name)
		if err != nil || got.UID != static {
			t.Fatalf("GetPod = %v, %v, want the static pod's UID", got, err)
		}
		if got, err = sink.PatchPodStatus(context.Background(), name, static, "", []byte(`{"phase":"Running"}`)); err != nil || got.UID != static {
			t.Fatalf("PatchPodStatus = %v, %v", got, err)
		}
		if m := w.mirror(); m.Status.Phase != v1.PodRunning || m.UID == static {
			t.Errorf("mirror pod %s has phase %q", m.UID, m.Status.Phase)
		}
		if err := sink.DeletePod(context.Background(), name, static); !errdefs.IsNotFound(err) || w.mirror() == nil {
			t.Errorf("DeletePod of a static pod = %v", err)
		}
	})
}
