// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

// fakeDirs records what it is asked to do; fail maps a call to its error.
type fakeDirs struct {
	// busy is called while a volume is made, otherGroup is the group it stays the one of.
	busy       func()
	otherGroup *int64
	// old says that the host knows no mount options.
	old     bool
	calls   []string
	fail    map[string]error
	volumes []host.Volume
	sets    []host.FileSet
	parts   []host.SubPath
}

var (
	_ Dirs         = (*fakeDirs)(nil)
	_ host.Volumes = (*fakeDirs)(nil)
)

// newManager returns a Manager on a node that can give 8 GiB.
func newManager(dirs *fakeDirs, objects *fakeObjects) *Manager {
	return New(Options{
		Dirs: dirs, Files: dirs, Objects: objects, Claims: objects, Bundles: objects, Keys: objects, Recorder: &record.FakeRecorder{}, Clock: clock.RealClock{}, NodeLabels: func() map[string]string { return map[string]string{v1.LabelHostname: "here"} },
		Allocatable: func() v1.ResourceList { return v1.ResourceList{v1.ResourceMemory: resource.MustParse("8Gi")} },
	})
}

func (f *fakeDirs) do(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	f.calls = append(f.calls, call)
	return f.fail[call]
}

func (f *fakeDirs) EnsurePod(_ context.Context, pod host.Pod, containers []string) error {
	return f.do("pod %s/%s/%s %v", pod.UID, pod.Namespace, pod.Name, containers)
}

func (f *fakeDirs) EnsureVolume(_ context.Context, uid types.UID, v host.Volume) (host.ReadyVolume, error) {
	if f.busy != nil {
		f.busy()
	}
	f.volumes = append(f.volumes, v)
	path := v.HostPath
	if v.Local != nil {
		path = v.Local.Path
	}
	if v.EmptyDir {
		path = "/root/pods/" + string(uid) + "/" + v.Name
	}
	mounted := v.Local != nil && len(v.Local.MountOptions) > 0 && !f.old
	if mounted {
		path = "/root/pods/" + string(uid) + "/" + v.Name
	}
	return host.ReadyVolume{Path: path, OtherGroup: f.otherGroup, Mounted: mounted}, f.do("volume %s %s type=%q", v.Name, path, v.HostPathType)
}

func (f *fakeDirs) WriteFiles(_ context.Context, uid types.UID, set host.FileSet) (string, error) {
	f.sets = append(f.sets, set)
	path := "/root/pods/" + string(uid) + "/" + set.Volume
	return path, f.do("write %s", path)
}

func (f *fakeDirs) EnsureSubPath(_ context.Context, uid types.UID, part host.SubPath) (string, error) {
	f.parts = append(f.parts, part)
	path := fmt.Sprintf("/root/pods/%s/subpaths/%s/%d", uid, part.Volume, part.Mount)
	return path, f.do("part %s", part.Path)
}

func (f *fakeDirs) ReadVolumeFile(_ context.Context, uid types.UID, file host.VolumeFile) ([]byte, error) {
	return []byte(file.Path), f.do("read %s/%s/%s/%s", uid, file.Kind, file.Volume, file.Path)
}

func (f *fakeDirs) EnsureTerminationLog(_ context.Context, uid types.UID, container string, restartCount int32) (string, error) {
	path := fmt.Sprintf("/root/pods/%s/containers/%s/%d", uid, container, restartCount)
	return path, f.do("log %s", path)
}

func (f *fakeDirs) RemovePod(_ context.Context, uid types.UID, removeLogs bool) error {
	return f.do("remove %s logs=%v", uid, removeLogs)
}

func emptyDir(name string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}
}

func hostPath(name, path string, pathType *v1.HostPathType) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: pathType}}}
}

func testPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"},
		Spec: v1.PodSpec{
			Volumes: []v1.Volume{
				emptyDir("cache"), hostPath("etc", "/etc/app", nil), hostPath("sock", "/run/x.sock", ptr.To(v1.HostPathSocket)),
				emptyDir("unused"),
			},
			InitContainers: []v1.Container{{Name: "init", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/c"}}}},
			Containers: []v1.Container{{
				Name:                   "web",
				TerminationMessagePath: "/dev/termination-log",
				VolumeMounts: []v1.VolumeMount{
					{Name: "sock", MountPath: "/run/x.sock", MountPropagation: ptr.To(v1.MountPropagationHostToContainer)},
					{Name: "cache", MountPath: "var/cache", MountPropagation: ptr.To(v1.MountPropagationNone)},
					{Name: "etc", MountPath: "/etc/app", ReadOnly: true},
					{Name: "etc", MountPath: "/shared", MountPropagation: ptr.To(v1.MountPropagationBidirectional)},
				},
			}},
		},
	}
}

func TestPrepareMakesWhatContainersMountAndThenNothing(t *testing.T) {
	dirs := &fakeDirs{}
	m := newManager(dirs, nil)
	for range 2 {
		if err := m.Prepare(t.Context(), testPod(), false); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`pod u/ns/p [init web]`,
		`volume cache /root/pods/u/cache type=""`,
		`volume etc /etc/app type=""`,
		`volume sock /run/x.sock type="Socket"`,
	}
	if diff := cmp.Diff(want, dirs.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestPrepareFollowsAnEphemeralContainerThatIsAdded(t *testing.T) {
	dirs := &fakeDirs{}
	m := newManager(dirs, nil)
	pod := testPod()
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	dirs.calls = nil
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", VolumeMounts: []v1.VolumeMount{{Name: "unused", MountPath: "/u"}},
	}}}
	for range 2 {
		if err := m.Prepare(t.Context(), pod, false); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`pod u/ns/p [init web debug]`,
		`volume cache /root/pods/u/cache type=""`,
		`volume etc /etc/app type=""`,
		`volume sock /run/x.sock type="Socket"`,
		`volume unused /root/pods/u/unused type=""`,
	}
	if diff := cmp.Diff(want, dirs.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestPrepareTellsOfEveryBrokenVolumeAndTriesAgain(t *testing.T) {
	dirs := &fakeDirs{fail: map[string]error{
		`volume etc /etc/app type=""`:           fmt.Errorf("hostPath type check failed: /etc/app is not a directory: %w", errdefs.ErrFailedPrecondition),
		`volume sock /run/x.sock type="Socket"`: errors.New("hostPath type check failed: /run/x.sock is not a socket file"),
	}}
	m := newManager(dirs, nil)
	err := m.Prepare(t.Context(), testPod(), false)
	const want = `MountVolume.SetUp failed for volume "etc" : hostPath type check failed: /etc/app is not a directory; ` +
		`MountVolume.SetUp failed for volume "sock" : hostPath type check failed: /run/x.sock is not a socket file`
	var unmounted *UnmountedError
	if !errors.As(err, &unmounted) || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	var setUp *SetUpError
	if !errors.As(err, &setUp) || setUp.Volume != "etc" {
		t.Errorf("the first cause is %v", setUp)
	}
	dirs.fail = nil
	if err := m.Prepare(t.Context(), testPod(), false); err != nil {
		t.Errorf("second try: %v", err)
	}
}

func TestPrepareDoesNotBlameVolumesForALostConnection(t *testing.T) {
	for _, call := range []string{`pod u/ns/p [init web]`, `volume etc /etc/app type=""`} {
		m := newManager(&fakeDirs{fail: map[string]error{call: fmt.Errorf("%w: link is down", errdefs.ErrUnavailable)}}, nil)
		err := m.Prepare(t.Context(), testPod(), false)
		var unmounted *UnmountedError
		if !errdefs.IsUnavailable(err) || errors.As(err, &unmounted) {
			t.Errorf("%s: got %v, want a plain Unavailable error", call, err)
		}
	}
}

func TestPrepareRefusesVolumesItCannotMake(t *testing.T) {
	pod := testPod()
	pod.Spec.Volumes[0] = v1.Volume{Name: "cache", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}}
	if err := newManager(&fakeDirs{}, nil).Prepare(t.Context(), pod, false); !errdefs.IsNotImplemented(err) {
		t.Errorf("got %v, want NotImplemented", err)
	}
}

func TestMountsKeepTheirOrderAndEndWithTheTerminationLog(t *testing.T) {
	m := newManager(&fakeDirs{}, nil)
	pod := testPod()
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	mounts, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: &pod.Spec.Containers[0], RestartCount: 3, Env: nil})
	if err != nil {
		t.Fatal(err)
	}
	const (
		private = runtimeapi.MountPropagation_PROPAGATION_PRIVATE
		slave   = runtimeapi.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		shared  = runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL
	)
	type mount struct {
		Host, Container string
		ReadOnly        bool
		Propagation     runtimeapi.MountPropagation
	}
	want := []mount{
		{"/run/x.sock", "/run/x.sock", false, slave},
		{"/root/pods/u/cache", "/var/cache", false, private},
		{"/etc/app", "/etc/app", true, private},
		{"/etc/app", "/shared", false, shared},
		{"/root/pods/u/containers/web/3", "/dev/termination-log", false, private},
	}
	got := make([]mount, 0, len(mounts))
	for _, m := range mounts {
		got = append(got, mount{m.GetHostPath(), m.GetContainerPath(), m.GetReadonly(), m.GetPropagation()})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestMountsWithoutTerminationMessagePathAsksForNoFile(t *testing.T) {
	dirs := &fakeDirs{}
	mounts, err := newManager(dirs, nil).Mounts(t.Context(), MountInput{Pod: testPod(), Container: &v1.Container{Name: "web"}, RestartCount: 0, Env: nil})
	if err != nil || len(mounts) > 0 || len(dirs.calls) > 0 {
		t.Errorf("mounts %v, error %v, calls %q", mounts, err, dirs.calls)
	}
}

func TestMountsNamesWhatItCannotMount(t *testing.T) {
	m := newManager(&fakeDirs{}, nil)
	pod := testPod()
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		mount v1.VolumeMount
		want  string
	}{
		{v1.VolumeMount{Name: "gone"}, `cannot find volume "gone" to mount into container "web"`},
		{
			v1.VolumeMount{Name: "cache", MountPropagation: ptr.To(v1.MountPropagationMode("Sideways"))},
			`mounting volume "cache" into container "web": mountPropagation "Sideways" is not known: invalid argument`,
		},
	} {
		_, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: &v1.Container{Name: "web", VolumeMounts: []v1.VolumeMount{tc.mount}}, RestartCount: 0, Env: nil})
		if err == nil || err.Error() != tc.want {
			t.Errorf("got  %v\nwant %s", err, tc.want)
		}
	}
}

func TestCleanupRemovesTheDirectoryButNotTheLogs(t *testing.T) {
	dirs := &fakeDirs{}
	m := newManager(dirs, nil)
	pod := testPod()
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	dirs.calls = nil
	if err := m.Cleanup(t.Context(), pod.UID); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"remove u logs=false"}, dirs.calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if _, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: &pod.Spec.Containers[0], RestartCount: 0, Env: nil}); err == nil {
		t.Error("volumes that were removed can still be mounted")
	}
}

func TestCleanupReportsWhatIsStillMounted(t *testing.T) {
	m := newManager(&fakeDirs{fail: map[string]error{"remove u logs=false": errdefs.ErrFailedPrecondition}}, nil)
	if err := m.Cleanup(t.Context(), "u"); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("got %v, want FailedPrecondition", err)
	}
}
