// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

// fakeObjects is what the API has. err is what every read ends with if it is set.
type fakeObjects struct {
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
	claims     map[string]*v1.PersistentVolumeClaim
	persistent map[string]*v1.PersistentVolume
	bundles    []*certificatesv1.ClusterTrustBundle
	token      string
	err        error
}

var _ Objects = (*fakeObjects)(nil)

// notFound is an error of class NotFound with the API's text alone.
type notFound string

func (e notFound) Error() string        { return string(e) }
func (e notFound) Is(target error) bool { return target == errdefs.ErrNotFound }

func (f *fakeObjects) ConfigMap(_ context.Context, _ *v1.Pod, name string) (*v1.ConfigMap, error) {
	if object, ok := f.configMaps[name]; ok || f.err != nil {
		return object, f.err
	}
	return nil, notFound(fmt.Sprintf("configmap %q not found", name))
}

func (f *fakeObjects) Secret(_ context.Context, _ *v1.Pod, name string) (*v1.Secret, error) {
	if object, ok := f.secrets[name]; ok || f.err != nil {
		return object, f.err
	}
	return nil, notFound(fmt.Sprintf("secret %q not found", name))
}

func (f *fakeObjects) PodCertificate(_ context.Context, _ *v1.Pod, volume string, source int, want *v1.PodCertificateProjection) (key, chain []byte, err error) {
	return fmt.Appendf(nil, "key %s %d;", volume, source), []byte("chain of " + want.SignerName), f.err
}

func (f *fakeObjects) Token(_ context.Context, _ *v1.Pod, audience string, seconds int64) (string, error) {
	return fmt.Sprintf("%s for %q of %d s", f.token, audience, seconds), f.err
}

// someObjects has one object of each kind.
func someObjects() *fakeObjects {
	return &fakeObjects{
		configMaps: map[string]*v1.ConfigMap{"cm": {
			Data: map[string]string{"text": "hello", "odd._-X": ""}, BinaryData: map[string][]byte{"bin": {0, 0xff}},
		}},
		secrets: map[string]*v1.Secret{"sec": {Data: map[string][]byte{"user": []byte("u"), "pass": []byte("p")}}},
		token:   "token",
	}
}

// podWith is a pod whose only container mounts the volumes.
func podWith(volumes ...v1.Volume) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"b": "2", "a": "1"}},
		Spec:       v1.PodSpec{Volumes: volumes, Containers: []v1.Container{{Name: "web"}}},
	}
	for i, v := range volumes {
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts,
			v1.VolumeMount{Name: v.Name, MountPath: fmt.Sprintf("/v%d", i)})
	}
	return pod
}

// text is a file set as a reader of the test sees it.
func text(set host.FileSet) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s group=%d", set.Kind, number(set.FSGroup))
	for _, f := range set.Files {
		fmt.Fprintf(&out, " %s=%q/%o", f.Path, f.Data, f.Mode)
		if f.User != nil {
			fmt.Fprintf(&out, "/%d", *f.User)
		}
	}
	return out.String()
}

func source(s v1.VolumeSource) v1.Volume { return v1.Volume{Name: "v", VolumeSource: s} }

func projected(sources ...v1.VolumeProjection) v1.Volume {
	return source(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources, DefaultMode: ptr.To[int32](0o444)}})
}

func TestFileSetsHaveWhatTheAPISays(t *testing.T) {
	yes := ptr.To(true)
	configMap := func(name string, optional *bool, items ...v1.KeyToPath) v1.Volume {
		return source(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
			LocalObjectReference: v1.LocalObjectReference{Name: name}, Items: items, Optional: optional}})
	}
	secret := func(name string, optional *bool, items ...v1.KeyToPath) v1.Volume {
		return source(v1.VolumeSource{Secret: &v1.SecretVolumeSource{
			SecretName: name, Items: items, Optional: optional, DefaultMode: ptr.To[int32](0o400)}})
	}
	for name, tc := range map[string]struct {
		volume v1.Volume
		want   string
		err    string
	}{
		"all keys of a ConfigMap": {
			volume: configMap("cm", nil), want: `configmap group=-1 bin="\x00\xff"/644 odd._-X=""/644 text="hello"/644`},
		"some keys of a ConfigMap": {
			volume: configMap("cm", nil, v1.KeyToPath{Key: "text", Path: "a/b", Mode: ptr.To[int32](0o600)}, v1.KeyToPath{Key: "bin", Path: "c"}),
			want:   `configmap group=-1 a/b="hello"/600 c="\x00\xff"/644`},
		"a missing ConfigMap":          {volume: configMap("x", nil), err: `configmap "x" not found`},
		"an optional ConfigMap":        {volume: configMap("x", yes), want: "configmap group=-1"},
		"a missing key":                {volume: configMap("cm", nil, v1.KeyToPath{Key: "k", Path: "k"}), err: "configmap references non-existent config key: k"},
		"an optional key":              {volume: configMap("cm", yes, v1.KeyToPath{Key: "k", Path: "k"}), want: "configmap group=-1"},
		"all keys of a Secret":         {volume: secret("sec", nil), want: `secret group=-1 pass="p"/400 user="u"/400`},
		"a missing Secret":             {volume: secret("x", nil), err: `secret "x" not found`},
		"an optional Secret":           {volume: secret("x", yes), want: "secret group=-1"},
		"a missing key of a Secret":    {volume: secret("sec", nil, v1.KeyToPath{Key: "k", Path: "k"}), err: "references non-existent secret key: k"},
		"an optional key of a Secret":  {volume: secret("sec", yes, v1.KeyToPath{Key: "k", Path: "k"}, v1.KeyToPath{Key: "user", Path: "me"}), want: `secret group=-1 me="u"/400`},
		"an empty path for the record": {volume: projected(), want: "projected group=-1"},
		"the downward API": {
			volume: source(v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
				{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
				{Path: "mem", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "web", Resource: "limits.memory", Divisor: resource.MustParse("1Gi")}},
			}}}),
			want: `downward-api group=-1 labels="a=\"1\"\nb=\"2\""/644 mem="8"/644`},
		"a field that is not there": {
			volume: source(v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
				{Path: "x", FieldRef: &v1.ObjectFieldSelector{FieldPath: "spec.x"}}}}}),
			err: "unsupported fieldPath: spec.x"},
		"everything projected": {
			volume: projected(
				v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", Audience: "a", ExpirationSeconds: ptr.To[int64](3607)}},
				v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{
					LocalObjectReference: v1.LocalObjectReference{Name: "cm"}, Items: []v1.KeyToPath{{Key: "text", Path: "ca.crt"}}}},
				v1.VolumeProjection{Secret: &v1.SecretProjection{
					LocalObjectReference: v1.LocalObjectReference{Name: "sec"}, Items: []v1.KeyToPath{{Key: "user", Path: "user"}}}},
				v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{
					{Path: "namespace", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}}}},
			),
			want: `projected group=-1 ca.crt="hello"/444 namespace="ns"/444 token="token for \"a\" of 3607 s"/444 user="u"/444`},
		"a certificate of the pod": {
			volume: projected(
				v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{SignerName: "x/y", CredentialBundlePath: "bundle"}},
				v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{SignerName: "x/z", KeyPath: "key", CertificateChainPath: "chain", User: ptr.To[int64](8)}},
			),
			want: `projected group=-1 bundle="key v 0;chain of x/y"/444 chain="chain of x/z"/600/8 key="key v 1;"/600/8`},
		"everything wrong that is projected": {
			volume: projected(
				v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "x"}}},
				v1.VolumeProjection{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "y"}}},
			),
			err: `[configmap "x" not found, secret "y" not found]`},
	} {
		t.Run(name, func(t *testing.T) {
			dirs := &fakeDirs{}
			err := newManager(dirs, someObjects()).Prepare(t.Context(), podWith(tc.volume), false)
			if tc.err != "" {
				want := `MountVolume.SetUp failed for volume "v" : ` + tc.err
				if err == nil || err.Error() != want || len(dirs.sets) > 0 {
					t.Errorf("got  %v and %d file sets\nwant %s", err, len(dirs.sets), want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, text(dirs.sets[0])); diff != "" {
				t.Errorf("file set (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOwnersFollowThePodsIdentity(t *testing.T) {
	token := projected(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "t"}})
	for name, tc := range map[string]struct {
		change func(*v1.Pod)
		want   string
	}{
		"nobody":  {func(*v1.Pod) {}, "group=-1 t=/444"},
		"a group": {func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](5)} }, "group=5 t=/600"},
		"one user": {func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To[int64](7)}
			p.Spec.InitContainers = []v1.Container{{Name: "i"}}
		}, "group=-1 t=/600/7"},
		"two users": {func(p *v1.Pod) {
			p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: ptr.To[int64](7)}
			p.Spec.InitContainers = []v1.Container{{Name: "i", SecurityContext: &v1.SecurityContext{RunAsUser: ptr.To[int64](8)}}}
		}, "group=-1 t=/444"},
		"a user of one container only": {func(p *v1.Pod) {
			p.Spec.InitContainers = []v1.Container{{Name: "i", SecurityContext: &v1.SecurityContext{RunAsUser: ptr.To[int64](8)}}}
		}, "group=-1 t=/444"},
	} {
		dirs := &fakeDirs{}
		pod := podWith(token)
		tc.change(pod)
		if err := newManager(dirs, someObjects()).Prepare(t.Context(), pod, false); err != nil {
			t.Fatal(err)
		}
		set := dirs.sets[0]
		set.Files[0].Data = nil
		if got := strings.ReplaceAll(strings.TrimPrefix(text(set), "projected "), `""`, ""); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestMemoryIsLimitedByTheLeastLimit(t *testing.T) {
	limited := func(q string) v1.ResourceRequirements {
		return v1.ResourceRequirements{Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse(q)}}
	}
	for name, tc := range map[string]struct {
		own    string
		change func(*v1.PodSpec)
		want   int64
	}{
		"the node":                       {"", func(*v1.PodSpec) {}, 8 << 30},
		"the volume":                     {"64Mi", func(*v1.PodSpec) {}, 64 << 20},
		"more than the node":             {"64Gi", func(*v1.PodSpec) {}, 8 << 30},
		"zero is no limit":               {"0", func(*v1.PodSpec) {}, 8 << 30},
		"the containers":                 {"1Gi", func(s *v1.PodSpec) { s.Containers[0].Resources = limited("128Mi") }, 128 << 20},
		"the pod":                        {"", func(s *v1.PodSpec) { s.Resources = ptr.To(limited("256Mi")) }, 256 << 20},
		"one container without":          {"", func(s *v1.PodSpec) { s.Containers = append(s.Containers, v1.Container{Resources: limited("1Mi")}) }, 8 << 30},
		"an init container without, too": {"", func(s *v1.PodSpec) { s.Containers[0].Resources, s.InitContainers = limited("1Mi"), []v1.Container{{}} }, 8 << 30},
	} {
		v := emptyDir("v")
		v.EmptyDir.Medium = v1.StorageMediumMemory
		if tc.own != "" {
			v.EmptyDir.SizeLimit = ptr.To(resource.MustParse(tc.own))
		}
		pod := podWith(v)
		tc.change(&pod.Spec)
		dirs := &fakeDirs{}
		if err := newManager(dirs, nil).Prepare(t.Context(), pod, false); err != nil {
			t.Fatal(err)
		}
		if got := dirs.volumes[0]; got.SizeBytes != tc.want || !got.Memory {
			t.Errorf("%s: %d bytes, want %d", name, got.SizeBytes, tc.want)
		}
	}
}

func TestEmptyDirHasItsGroupAndMode(t *testing.T) {
	v := emptyDir("v")
	v.EmptyDir.Mode = ptr.To[int32](0o2750)
	pod := podWith(v)
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](5)}
	dirs := &fakeDirs{}
	if err := newManager(dirs, nil).Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	want := []host.Volume{{Name: "v", EmptyDir: true, Mode: ptr.To[uint32](0o2750), FSGroup: ptr.To[int64](5)}}
	if diff := cmp.Diff(want, dirs.volumes); diff != "" {
		t.Errorf("volumes (-want +got):\n%s", diff)
	}
}

func TestRefreshWritesWhatChangedAndNothingElse(t *testing.T) {
	dirs, objects := &fakeDirs{}, someObjects()
	m := newManager(dirs, objects)
	secret := v1.Volume{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}}
	pod := podWith(source(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "cm"}}}), secret)
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	refresh := func(want ...string) {
		t.Helper()
		dirs.calls = nil
		if err := m.Refresh(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, dirs.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	}
	refresh()
	objects.secrets["sec"] = &v1.Secret{Data: map[string][]byte{"user": []byte("other")}}
	refresh("write /root/pods/u/s")
	refresh()
	// A later process does not know what the host has.
	m = newManager(dirs, objects)
	refresh("write /root/pods/u/v", "write /root/pods/u/s")
	refresh()
}

func TestALostAnswerIsWrittenAgain(t *testing.T) {
	dirs := &fakeDirs{}
	m := newManager(dirs, someObjects())
	pod := podWith(source(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}))
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	objects := someObjects()
	objects.secrets["sec"].Data["user"] = []byte("other")
	m.opts.Objects = objects
	dirs.fail = map[string]error{"write /root/pods/u/v": errdefs.ErrUnavailable}
	var unmounted *UnmountedError
	if err := m.Refresh(t.Context(), pod); !errdefs.IsUnavailable(err) || errors.As(err, &unmounted) {
		t.Errorf("got %v, want a plain Unavailable error", err)
	}
	dirs.fail, m.opts.Objects = nil, someObjects() // back to what the host had before, or not
	if err := m.Refresh(t.Context(), pod); err != nil || len(dirs.sets) != 3 {
		t.Errorf("%d writes, %v", len(dirs.sets), err)
	}
}

func TestRefreshKeepsWhatItCannotBringUpToDate(t *testing.T) {
	dirs, objects := &fakeDirs{}, someObjects()
	m := newManager(dirs, objects)
	pod := podWith(source(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}))
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	delete(objects.secrets, "sec")
	if err := m.Refresh(t.Context(), pod); err == nil || err.Error() != `MountVolume.SetUp failed for volume "v" : secret "sec" not found` {
		t.Errorf("got %v", err)
	}
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Errorf("a container cannot start again: %v", err)
	}
	if mounts, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: &pod.Spec.Containers[0], RestartCount: 0, Env: nil}); err != nil || !mounts[0].GetReadonly() {
		t.Errorf("mounts %v, %v", mounts, err)
	}
}

func TestPrepareAnewMakesEverythingAgain(t *testing.T) {
	dirs := &fakeDirs{}
	m := newManager(dirs, someObjects())
	pod := podWith(source(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}), emptyDir("e"))
	for _, anew := range []bool{false, true} {
		dirs.calls = nil
		if err := m.Prepare(t.Context(), pod, anew); err != nil {
			t.Fatal(err)
		}
		want := []string{"pod u/ns/p [web]", "write /root/pods/u/v", `volume e /root/pods/u/e type=""`}
		if diff := cmp.Diff(want, dirs.calls); diff != "" {
			t.Errorf("anew=%v (-want +got):\n%s", anew, diff)
		}
	}
}

func TestAnObjectThatCannotBeReadIsNotALostHost(t *testing.T) {
	objects := &fakeObjects{err: fmt.Errorf("failed to sync secret cache: %w", errdefs.ErrUnavailable)}
	pod := podWith(source(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}))
	err := newManager(&fakeDirs{}, objects).Prepare(t.Context(), pod, false)
	var unmounted *UnmountedError
	if errdefs.IsUnavailable(err) || !errors.As(err, &unmounted) {
		t.Errorf("got %v, want something to tell the user", err)
	}
}

func TestAPodThatWaitsTooLongIsToldSo(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Now())
	m := newManager(&fakeDirs{}, &fakeObjects{})
	m.opts.Clock = clk
	pod := podWith(source(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}))
	for _, late := range []bool{false, true, true} {
		var unmounted *UnmountedError
		if err := m.Prepare(t.Context(), pod, true); !errors.As(err, &unmounted) || unmounted.TimedOut != late {
			t.Errorf("late %v: %v", late, err)
		} else if want := "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], " +
			"failed to process volumes=[]: context deadline exceeded"; unmounted.Summary() != want {
			t.Errorf("summary %s", unmounted.Summary())
		}
		clk.Step(Timeout)
	}
}

// TestTokenThatExpiredWhileTheHostWasAwayIsReplaced by the newest one, and without anybody asking for the volume anew.
func TestTokenThatExpiredWhileTheHostWasAwayIsReplaced(t *testing.T) {
	dirs, objects := &fakeDirs{}, someObjects()
	m := newManager(dirs, objects)
	pod := podWith(projected(v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "t", ExpirationSeconds: ptr.To[int64](600)}}))
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	dirs.fail = map[string]error{"write /root/pods/u/v": errdefs.ErrUnavailable}
	for _, objects.token = range []string{"second", "third"} {
		if err := m.Refresh(t.Context(), pod); !errdefs.IsUnavailable(err) {
			t.Errorf("while the host is away: %v", err)
		}
	}
	dirs.fail = nil
	if err := m.Refresh(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	last := dirs.sets[len(dirs.sets)-1]
	if diff := cmp.Diff([]string{`third for "" of 600 s`}, contents(last)); diff != "" {
		t.Errorf("the host has (-want +got):\n%s", diff)
	}
	writes := len(dirs.sets)
	if err := m.Refresh(t.Context(), pod); err != nil || len(dirs.sets) != writes {
		t.Errorf("it is written again: %d writes instead of %d, %v", len(dirs.sets), writes, err)
	}
}

// contents are what the files of a set say.
func contents(set host.FileSet) []string {
	out := make([]string, 0, len(set.Files))
	for _, f := range set.Files {
		out = append(out, string(f.Data))
	}
	return out
}
