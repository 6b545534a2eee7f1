// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// fakeImages is an image service. Hooks left nil answer "not present" and "pulled".
type fakeImages struct {
	status func(image string) (*runtimeapi.Image, error)
	pull   func(ctx context.Context, req *runtimeapi.PullImageRequest) (string, error)
	list   func() []*runtimeapi.Image

	mu    sync.Mutex
	pulls []*runtimeapi.PullImageRequest
}

var _ Runtime = (*fakeImages)(nil)

func (f *fakeImages) ImageStatus(_ context.Context, image string) (*runtimeapi.Image, error) {
	if f.status == nil {
		return nil, nil
	}
	return f.status(image)
}

func (f *fakeImages) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (string, error) {
	f.mu.Lock()
	f.pulls = append(f.pulls, req)
	f.mu.Unlock()
	if f.pull == nil {
		return "sha256:pulled", nil
	}
	return f.pull(ctx, req)
}

func (f *fakeImages) ListImages(context.Context) ([]*runtimeapi.Image, error) {
	if f.list == nil {
		return nil, nil
	}
	return f.list(), nil
}

func (f *fakeImages) pulled() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.pulls)
}

// events records events as "<type> <reason> <message>" with the field path in front.
type events struct {
	mu  sync.Mutex
	got []string
}

func (e *events) Event(object runtime.Object, eventType, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	path := "?"
	if ref, ok := object.(*v1.ObjectReference); ok {
		path = ref.FieldPath
	}
	e.got = append(e.got, fmt.Sprintf("%s %s %s %s", path, eventType, reason, message))
}

func (e *events) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	e.Event(object, eventType, reason, fmt.Sprintf(format, args...))
}

func (e *events) AnnotatedEventf(object runtime.Object, _ map[string]string, eventType, reason, format string, args ...any) {
	e.Eventf(object, eventType, reason, format, args...)
}

func (e *events) take() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := e.got
	e.got = nil
	return out
}

type bench struct {
	*Manager
	images *fakeImages
	clock  *clocktesting.FakeClock
	events *events
}

func newBench(images *fakeImages, maxParallel int) *bench {
	b := &bench{images: images, clock: clocktesting.NewFakeClock(time.Unix(1700000000, 0)), events: &events{}}
	b.Manager = New(Options{Images: images, Records: newFakeRecords(), Clock: b.clock, Recorder: b.events, MaxParallelPulls: maxParallel, Registerer: prometheus.NewRegistry()})
	return b
}

// testPod has a regular container "web" and an init container "prepare" of the image and policy.
func testPod(uid, image string, policy v1.PullPolicy) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: types.UID(uid), Annotations: map[string]string{"a": "b"}},
		Spec: v1.PodSpec{
			InitContainers: []v1.Container{{Name: "prepare", Image: image, ImagePullPolicy: policy}},
			Containers:     []v1.Container{{Name: "web", Image: image, ImagePullPolicy: policy}},
		},
	}
}

func (b *bench) ensure(ctx context.Context, pod *v1.Pod) (string, error) {
	return b.EnsureImage(ctx, pod, &pod.Spec.Containers[0], &runtimeapi.PodSandboxConfig{Hostname: "p"})
}

func present(id string, size uint64) func(string) (*runtimeapi.Image, error) {
	return func(string) (*runtimeapi.Image, error) { return &runtimeapi.Image{Id: id, Size: size}, nil }
}

func TestEnsureImageTellsWhatItDoesInTheKubeletsWords(t *testing.T) {
	broken := func(string) (*runtimeapi.Image, error) { return nil, errors.New("metadata is corrupt") }
	fail := func(text string) func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
		return func(context.Context, *runtimeapi.PullImageRequest) (string, error) { return "", errors.New(text) }
	}
	for _, tc := range []struct {
		name   string
		images *fakeImages
		image  string
		policy v1.PullPolicy

		wantRef    string
		wantReason string
		wantText   string
		wantPulled string // the image asked for
		wantEvents []string
	}{
		{
			name: "present and IfNotPresent", images: &fakeImages{status: present("sha256:here", 7)}, image: "app:v1", policy: v1.PullIfNotPresent,
			wantRef:    "sha256:here",
			wantEvents: []string{`Normal Pulled Container image "app:v1" already present on machine and can be accessed by the pod`},
		},
		{
			name: "present and Never", images: &fakeImages{status: present("sha256:here", 7)}, image: "app", policy: v1.PullNever,
			wantRef:    "sha256:here",
			wantEvents: []string{`Normal Pulled Container image "app" already present on machine and can be accessed by the pod`},
		},
		{
			name: "absent and Never", image: "app:v1", policy: v1.PullNever,
			wantReason: "ErrImageNeverPull", wantText: `Container image "app:v1" is not present with pull policy of Never`,
			wantEvents: []string{`Warning ErrImageNeverPull Container image "app:v1" is not present with pull policy of Never`},
		},
		{
			name: "absent and IfNotPresent", image: "app", policy: v1.PullIfNotPresent,
			wantRef: "sha256:pulled", wantPulled: "app:latest",
			wantEvents: []string{
				`Normal Pulling Pulling image "app"`,
				`Normal Pulled Successfully pulled image "app" in 0s (0s including waiting). Image size: 0 bytes.`,
			},
		},
		{
			name: "present and Always", images: &fakeImages{status: present("sha256:here", 1234)}, image: "app:v1", policy: v1.PullAlways,
			wantRef: "sha256:pulled", wantPulled: "app:v1",
			wantEvents: []string{
				`Normal Pulling Pulling image "app:v1"`,
				`Normal Pulled Successfully pulled image "app:v1" in 0s (0s including waiting). Image size: 1234 bytes.`,
			},
		},
		{
			name: "no name", image: "App!", policy: v1.PullIfNotPresent,
			wantReason: "InvalidImageName",
			wantText:   `Failed to apply default image tag "App!": couldn't parse image name "App!": invalid reference format: repository name (library/App!) must be lowercase`,
			wantEvents: []string{`Warning InspectFailed Failed to apply default image tag "App!": couldn't parse image name "App!": invalid reference format: repository name (library/App!) must be lowercase`},
		},
		{
			name: "inspection fails", images: &fakeImages{status: broken}, image: "app:v1", policy: v1.PullIfNotPresent,
			wantReason: "ImageInspectError", wantText: `Failed to inspect image "app:v1": metadata is corrupt`,
			wantEvents: []string{`Warning InspectFailed Failed to inspect image "app:v1": metadata is corrupt`},
		},
		{
			name: "pull fails", images: &fakeImages{pull: fail("not found")}, image: "app:v1", policy: v1.PullIfNotPresent,
			wantReason: "ErrImagePull", wantText: "not found", wantPulled: "app:v1",
			wantEvents: []string{
				`Normal Pulling Pulling image "app:v1"`,
				`Warning Failed Failed to pull image "app:v1": not found`,
			},
		},
		{
			name: "registry unavailable", images: &fakeImages{pull: fail("RegistryUnavailable: 503")}, image: "app:v1", policy: v1.PullAlways,
			wantReason: "RegistryUnavailable", wantText: "image pull failed for app:v1 because the registry is unavailable: 503", wantPulled: "app:v1",
			wantEvents: []string{
				`Normal Pulling Pulling image "app:v1"`,
				`Warning Failed Failed to pull image "app:v1": RegistryUnavailable: 503`,
			},
		},
		{
			name: "bad signature", images: &fakeImages{pull: fail("SignatureValidationFailed: no key")}, image: "app:v1", policy: v1.PullAlways,
			wantReason: "SignatureValidationFailed", wantText: "image pull failed for app:v1 because the signature validation failed: no key", wantPulled: "app:v1",
			wantEvents: []string{
				`Normal Pulling Pulling image "app:v1"`,
				`Warning Failed Failed to pull image "app:v1": SignatureValidationFailed: no key`,
			},
		},
		{
			name: "a registry that is too slow for the runtime", image: "app:v1", policy: v1.PullAlways,
			images: &fakeImages{pull: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
				return "", fmt.Errorf("reading the manifest: %w", errdefs.ErrUnknown.WithMessage("context deadline exceeded"))
			}},
			wantReason: "ErrImagePull", wantText: "reading the manifest: context deadline exceeded", wantPulled: "app:v1",
			wantEvents: []string{
				`Normal Pulling Pulling image "app:v1"`,
				`Warning Failed Failed to pull image "app:v1": reading the manifest: context deadline exceeded`,
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.images == nil {
				tc.images = &fakeImages{}
			}
			b := newBench(tc.images, 0)
			ref, err := b.ensure(t.Context(), testPod("u", tc.image, tc.policy))
			if ref != tc.wantRef {
				t.Errorf("reference %q, want %q", ref, tc.wantRef)
			}
			wantReason(t, err, tc.wantReason, tc.wantText)
			var want []string
			for _, e := range tc.wantEvents {
				want = append(want, "spec.containers{web} "+e)
			}
			if diff := cmp.Diff(want, b.events.take()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			var asked string
			if n := len(tc.images.pulls); n > 0 {
				asked = tc.images.pulls[n-1].GetImage().GetImage()
			}
			if asked != tc.wantPulled {
				t.Errorf("pulled %q, want %q", asked, tc.wantPulled)
			}
		})
	}
}

func wantReason(t *testing.T, err error, reason, text string) {
	t.Helper()
	if reason == "" {
		if err != nil {
			t.Errorf("unexpected error %v", err)
		}
		return
	}
	var waiting interface {
		error
		WaitingReason() string
	}
	if !errors.As(err, &waiting) {
		t.Fatalf("error %v has no waiting reason", err)
	}
	if waiting.WaitingReason() != reason || waiting.Error() != text {
		t.Errorf("waiting %s: %s\nwant    %s: %s", waiting.WaitingReason(), waiting.Error(), reason, text)
	}
}

func TestPullHandsTheSandboxAndTheAnnotationsToTheRuntime(t *testing.T) {
	b := newBench(&fakeImages{}, 0)
	pod := testPod("u", "app:v1", v1.PullAlways)
	if _, err := b.EnsureImage(t.Context(), pod, &pod.Spec.InitContainers[0], &runtimeapi.PodSandboxConfig{Hostname: "h"}); err != nil {
		t.Fatal(err)
	}
	got := b.images.pulls[0]
	if got.GetSandboxConfig().GetHostname() != "h" || got.GetImage().GetAnnotations()["a"] != "b" {
		t.Errorf("request %v lacks the sandbox or the pod's annotations", got)
	}
	if e := b.events.take()[0]; e != `spec.initContainers{prepare} Normal Pulling Pulling image "app:v1"` {
		t.Errorf("the event is not the init container's: %s", e)
	}
}

func TestBackOffDoublesAndKeepsTheLastRealError(t *testing.T) {
	attempt := 0
	b := newBench(&fakeImages{pull: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
		attempt++
		return "", fmt.Errorf("no such repository (%d)", attempt)
	}}, 0)
	pod := testPod("u", "app:v1", v1.PullIfNotPresent)
	for i, delay := range []time.Duration{10, 20, 40, 80, 160, 300, 300} {
		_, err := b.ensure(t.Context(), pod)
		cause := fmt.Sprintf("no such repository (%d)", i+1)
		wantReason(t, err, "ErrImagePull", cause)
		b.events.take()
		b.clock.Step(delay*time.Second - time.Millisecond)
		_, err = b.ensure(t.Context(), pod)
		wantReason(t, err, "ImagePullBackOff", `Back-off pulling image "app:v1": ErrImagePull: `+cause)
		if diff := cmp.Diff([]string{`spec.containers{web} Normal BackOff Back-off pulling image "app:v1"`}, b.events.take()); diff != "" {
			t.Errorf("events in back-off (-want +got):\n%s", diff)
		}
		b.clock.Step(time.Millisecond)
	}
}

func TestBackOffBelongsToOneImageOfOnePod(t *testing.T) {
	b := newBench(&fakeImages{pull: func(context.Context, *runtimeapi.PullImageRequest) (string, error) { return "", errors.New("no") }}, 0)
	for _, pod := range []*v1.Pod{
		testPod("u", "app:v1", v1.PullAlways), testPod("u", "app:v2", v1.PullAlways), testPod("other", "app:v1", v1.PullAlways),
	} {
		_, err := b.ensure(t.Context(), pod)
		wantReason(t, err, "ErrImagePull", "no")
	}
	b.Forget("u")
	_, err := b.ensure(t.Context(), testPod("u", "app:v1", v1.PullAlways))
	wantReason(t, err, "ErrImagePull", "no")
	_, err = b.ensure(t.Context(), testPod("other", "app:v1", v1.PullAlways))
	wantReason(t, err, "ImagePullBackOff", `Back-off pulling image "app:v1": ErrImagePull: no`)
}

// B83: the cause of failing pulls lasts for hours and is then mended.
func TestPullIsTriedAtLeastEveryFiveMinutesAndRecovers(t *testing.T) {
	mended := false
	b := newBench(&fakeImages{pull: func(context.Context, *runtimeapi.PullImageRequest) (string, error) {
		if mended {
			return "sha256:pulled", nil
		}
		return "", errors.New("authorization failed")
	}}, 0)
	pod := testPod("u", "app:v1", v1.PullAlways)
	const cadence = 10 * time.Second // of the pod worker's retries
	lastPull, pulls := b.clock.Now(), 0
	for b.clock.Since(lastPull) < 6*time.Minute && pulls < 60 {
		_, err := b.ensure(t.Context(), pod)
		if err == nil {
			t.Fatal("pulled what cannot be pulled")
		}
		if n := b.images.pulled(); n > pulls {
			lastPull, pulls = b.clock.Now(), n
		} else {
			wantReason(t, err, "ImagePullBackOff", `Back-off pulling image "app:v1": ErrImagePull: authorization failed`)
		}
		if wait := b.clock.Since(lastPull); wait > MaxBackoff {
			t.Fatalf("no pull was tried for %v", wait)
		}
		b.clock.Step(cadence)
	}
	if pulls != 60 {
		t.Fatalf("only %d pulls were tried", pulls)
	}
	mended = true
	var ref string
	for waited := time.Duration(0); ref == "" && waited <= MaxBackoff; waited += cadence {
		ref, _ = b.ensure(t.Context(), pod)
		b.clock.Step(cadence)
	}
	if ref != "sha256:pulled" {
		t.Error("the pull did not recover within the longest back-off")
	}
}

func TestLostConnectionIsNoFaultOfTheImage(t *testing.T) {
	lost := fmt.Errorf("%w: connection refused", errdefs.ErrUnavailable)
	for _, tc := range []struct {
		name       string
		images     *fakeImages
		wantEvents []string
	}{
		{
			name:   "while inspecting",
			images: &fakeImages{status: func(string) (*runtimeapi.Image, error) { return nil, lost }},
		},
		{
			name: "while inspecting a runtime that does not answer",
			images: &fakeImages{status: func(string) (*runtimeapi.Image, error) {
				return nil, fmt.Errorf("no answer: %w", context.DeadlineExceeded)
			}},
		},
		{
			name:       "while pulling",
			images:     &fakeImages{pull: func(context.Context, *runtimeapi.PullImageRequest) (string, error) { return "", lost }},
			wantEvents: []string{`spec.containers{web} Normal Pulling Pulling image "app:v1"`},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(tc.images, 0)
			pod := testPod("u", "app:v1", v1.PullIfNotPresent)
			for range 2 { // the second time would be in back-off
				_, err := b.ensure(t.Context(), pod)
				var waiting *Error
				if err == nil || errors.As(err, &waiting) {
					t.Errorf("got %v, want a plain error", err)
				}
				if diff := cmp.Diff(tc.wantEvents, b.events.take()); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
			}
		})
	}
}
