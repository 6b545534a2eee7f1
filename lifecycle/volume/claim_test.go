// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

func (f *fakeObjects) Claim(_ context.Context, _ *v1.Pod, name string) (*v1.PersistentVolumeClaim, error) {
	if object, ok := f.claims[name]; ok || f.err != nil {
		return object, f.err
	}
	return nil, notFound(fmt.Sprintf("persistentvolumeclaims %q not found", name))
}

func (f *fakeObjects) PersistentVolume(_ context.Context, _ *v1.Pod, name string) (*v1.PersistentVolume, error) {
	if object, ok := f.persistent[name]; ok {
		return object, nil
	}
	return nil, notFound(fmt.Sprintf("persistentvolumes %q not found", name))
}

// claimed is a pod that mounts a claim, and the claim bound to a local volume.
func claimed(edit ...func(*v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume)) (*v1.Pod, *fakeObjects) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: v1.PodSpec{
		Volumes: []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}}},
		Containers: []v1.Container{{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}},
	}}
	claim := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim", UID: "c"}, Spec: v1.PersistentVolumeClaimSpec{VolumeName: "disk-1"},
		Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk-1"}, Spec: v1.PersistentVolumeSpec{
		ClaimRef:               &v1.ObjectReference{UID: "c"},
		PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/mnt/disk"}},
		NodeAffinity:           onNode("here"),
	}}
	for _, e := range edit {
		e(pod, claim, pv)
	}
	return pod, &fakeObjects{claims: map[string]*v1.PersistentVolumeClaim{claim.Name: claim}, persistent: map[string]*v1.PersistentVolume{pv.Name: pv}}
}

func onNode(name string) *v1.VolumeNodeAffinity {
	return &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
		MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{name}}}}}}}
}

func withHostPath(_ *v1.Pod, _ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/srv", Type: ptr.To(v1.HostPathDirectory)}}
}

func withGroup(pod *v1.Pod, _ *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](7), FSGroupChangePolicy: ptr.To(v1.FSGroupChangeOnRootMismatch)}
}

func withModes(modes ...v1.PersistentVolumeAccessMode) func(*v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	return func(_ *v1.Pod, _ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.AccessModes = modes }
}

func withOptions(options ...string) func(*v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume) {
	return func(_ *v1.Pod, _ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.MountOptions = options }
}

func readOnly(pod *v1.Pod, _ *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
	pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
}

// inline makes the claim that of a generic ephemeral volume of the pod.
func inline(pod *v1.Pod, claim *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
	pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}
	claim.Name = "p-data"
	claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
}

func asBlock(pod *v1.Pod, _ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
	pv.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
	pod.Spec.Containers[0].VolumeMounts = nil
	pod.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "data", DevicePath: "/dev/disk"}}
}

func TestClaimsBecomeWhatTheyAreBoundTo(t *testing.T) {
	type edits []func(*v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume)
	for name, tt := range map[string]struct {
		edits    edits
		want     host.Volume
		readOnly bool
	}{
		"local":               {nil, host.Volume{Name: "data", Local: &host.LocalVolume{Path: "/mnt/disk"}}, false},
		"local for a group":   {edits{withGroup}, host.Volume{Name: "data", Local: &host.LocalVolume{Path: "/mnt/disk", FSGroup: ptr.To[int64](7), OnRootMismatch: true}}, false},
		"local read-only":     {edits{withGroup, readOnly}, host.Volume{Name: "data", Local: &host.LocalVolume{Path: "/mnt/disk"}}, true},
		"for one pod":         {edits{withModes(v1.ReadWriteOncePod)}, host.Volume{Name: "data", Local: &host.LocalVolume{Path: "/mnt/disk", Sole: true}}, false},
		"for one pod or more": {edits{withModes(v1.ReadWriteOncePod, v1.ReadWriteOnce)}, host.Volume{Name: "data", Local: &host.LocalVolume{Path: "/mnt/disk"}}, false},
		"hostPath":            {edits{withHostPath, withGroup}, host.Volume{Name: "data", HostPath: "/srv", HostPathType: "Directory"}, false},
		"generic ephemeral":   {edits{inline}, host.Volume{Name: "data", Local: &host.LocalVolume{Path: "/mnt/disk"}}, false},
		"hostPath, read-only": {edits{withHostPath, readOnly}, host.Volume{Name: "data", HostPath: "/srv", HostPathType: "Directory"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod, objects := claimed(tt.edits...)
			dirs := &fakeDirs{}
			m := newManager(dirs, objects)
			if err := m.Prepare(t.Context(), pod, false); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]host.Volume{tt.want}, dirs.volumes); diff != "" {
				t.Errorf("the host is asked for (-want +got):\n%s", diff)
			}
			mounts, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: &pod.Spec.Containers[0], RestartCount: 0, Env: nil})
			if err != nil || len(mounts) != 1 || mounts[0].GetReadonly() != tt.readOnly || mounts[0].GetContainerPath() != "/data" {
				t.Errorf("mounts %v, %v", mounts, err)
			}
			pod.Spec.Containers[0].VolumeMounts[0].SubPath = "sub"
			if _, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: &pod.Spec.Containers[0], RestartCount: 0, Env: nil}); err != nil {
				t.Fatal(err)
			}
			path := tt.want.HostPath
			if tt.want.Local != nil {
				path = tt.want.Local.Path
			}
			if diff := cmp.Diff([]host.SubPath{{Volume: "data", HostPath: path, Path: "sub", Container: "web"}}, dirs.parts); diff != "" {
				t.Errorf("the part (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLocalVolumesAreMountedWithTheirOptions(t *testing.T) {
	annotated := func(_ *v1.Pod, _ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) {
		pv.Annotations = map[string]string{v1.MountOptionAnnotation: "ro,,nodev"}
	}
	type edits []func(*v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume)
	for name, tt := range map[string]struct {
		edits edits
		want  []string
		at    string
	}{
		"each once":          {edits{withOptions("nosuid", "noexec", "nosuid")}, []string{"noexec", "nosuid"}, "/root/pods/u/data"},
		"for a group":        {edits{withOptions("noexec"), withGroup}, []string{"noexec"}, "/root/pods/u/data"},
		"the annotation":     {edits{withOptions("noexec"), annotated}, []string{"nodev", "ro"}, "/root/pods/u/data"},
		"nothing to be done": {edits{withOptions("")}, nil, "/mnt/disk"},
	} {
		t.Run(name, func(t *testing.T) {
			pod, objects := claimed(tt.edits...)
			dirs := &fakeDirs{}
			m := newManager(dirs, objects)
			if err := m.Prepare(t.Context(), pod, false); err != nil {
				t.Fatal(err)
			}
			if got := dirs.volumes[0].Local.MountOptions; !slices.Equal(got, tt.want) {
				t.Errorf("the host is asked for %q, want %q", got, tt.want)
			}
			mounts, err := m.Mounts(t.Context(), MountInput{Pod: pod, Container: &pod.Spec.Containers[0]})
			if err != nil || mounts[0].GetHostPath() != tt.at {
				t.Errorf("mounts %v, %v; want %s", mounts, err, tt.at)
			}
		})
	}
	pod, objects := claimed(withOptions("noexec"))
	const want = `MountVolume.SetUp failed for volume "disk-1" : the host does not know mount options; upgrade the host, or remove them`
	if err := newManager(&fakeDirs{old: true}, objects).Prepare(t.Context(), pod, false); err == nil || err.Error() != want {
		t.Errorf("a host that knows none: %v, want %s", err, want)
	}
}

func TestDisksBecomeDevices(t *testing.T) {
	pod, objects := claimed(asBlock, withGroup, readOnly, withOptions("noexec"), withModes(v1.ReadWriteOncePod))
	dirs := &fakeDirs{}
	m := newManager(dirs, objects)
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]host.Volume{{Name: "data", Local: &host.LocalVolume{Path: "/mnt/disk", Block: true}}}, dirs.volumes); diff != "" {
		t.Errorf("the host is asked for (-want +got):\n%s", diff)
	}
	for permissions, ro := range map[string]bool{"r": true, "mrw": false} {
		pod.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = ro
		if err := m.Prepare(t.Context(), pod, true); err != nil {
			t.Fatal(err)
		}
		devices, err := m.Devices(pod, &pod.Spec.Containers[0])
		want := &runtimeapi.Device{HostPath: "/mnt/disk", ContainerPath: "/dev/disk", Permissions: permissions}
		if err != nil || len(devices) != 1 || devices[0].String() != want.String() {
			t.Errorf("got %v, %v; want %v", devices, err, want)
		}
	}
	if _, err := m.Devices(pod, &v1.Container{Name: "x", VolumeDevices: []v1.VolumeDevice{{Name: "other"}}}); err == nil {
		t.Error("a device of a volume that is not there")
	}
}

func TestWhatIsWrongWithAClaimIsTold(t *testing.T) {
	processing := func(text string) string {
		return "FailedMount Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: " + text
	}
	for name, tt := range map[string]struct {
		edit func(*v1.Pod, *v1.PersistentVolumeClaim, *v1.PersistentVolume)
		want string
	}{
		"no claim": {func(p *v1.Pod, _ *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "other"
		}, processing(`error processing PVC ns/other: failed to fetch PVC from API server: persistentvolumeclaims "other" not found`)},
		"not bound": {func(_ *v1.Pod, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimPending },
			processing("error processing PVC ns/claim: PVC is not bound")},
		"going": {func(_ *v1.Pod, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now()))
		}, processing("error processing PVC ns/claim: PVC is being deleted")},
		"no volume": {func(_ *v1.Pod, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "gone" },
			processing(`error processing PVC ns/claim: failed to fetch PV gone from API server: persistentvolumes "gone" not found`)},
		"somebody else's volume": {func(_ *v1.Pod, _ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) { v.Spec.ClaimRef.UID = "d" },
			processing("error processing PVC ns/claim: found PV object disk-1 but its pv.Spec.ClaimRef.UID d does not point to claim.UID c")},
		"somebody else's claim": {func(p *v1.Pod, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			inline(p, c, nil)
			c.OwnerReferences = nil
		}, processing("PVC ns/p-data was not created for pod ns/p (pod is not owner)")},
		"a disk that is mounted": {func(_ *v1.Pod, _ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.VolumeMode = ptr.To(v1.PersistentVolumeBlock)
		}, processing("volume data has volumeMode Block, but is specified in volumeMounts")},
		"elsewhere": {func(_ *v1.Pod, _ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.NodeAffinity = onNode("there")
		},
			`FailedMount MountVolume.NodeAffinity check failed for volume "disk-1" : no matching NodeSelectorTerms`},
		"options of a hostPath": {func(p *v1.Pod, c *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			withHostPath(p, c, v)
			v.Spec.MountOptions = []string{"noexec"}
		}, `FailedMount MountVolume.MountOptionSupport check failed for volume "disk-1" : mount options are not supported for this volume type`},
		"a driver": {func(_ *v1.Pod, _ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}}
		}, `FailedMount MountVolume.SetUp failed for volume "disk-1" : PersistentVolumes of type csi (driver "ebs.csi.aws.com") are not mounted by this node; use one of type local or hostPath, with the file system mounted on the host`},
		"nfs": {func(_ *v1.Pod, _ *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{}}
		}, `FailedMount MountVolume.SetUp failed for volume "disk-1" : PersistentVolumes of type nfs are not mounted by this node; use one of type local or hostPath, with the file system mounted on the host`},
		"a disk by a path": {func(p *v1.Pod, c *v1.PersistentVolumeClaim, v *v1.PersistentVolume) {
			asBlock(p, c, v)
			withHostPath(p, c, v)
		}, `FailedMapVolume MapVolume.SetUp failed for volume "disk-1" : a volume of type hostPath is no block device; use one of type local`},
	} {
		t.Run(name, func(t *testing.T) {
			pod, objects := claimed(tt.edit)
			err := newManager(&fakeDirs{}, objects).Prepare(t.Context(), pod, false)
			var cause *SetUpError
			if !errors.As(err, &cause) || cause.Reason()+" "+cause.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func TestClaimThatCannotBeReadIsNotALostHost(t *testing.T) {
	pod, objects := claimed()
	objects.err = fmt.Errorf("the API is away: %w", errdefs.ErrUnavailable)
	var unmounted *UnmountedError
	if err := newManager(&fakeDirs{}, objects).Prepare(t.Context(), pod, false); !errors.As(err, &unmounted) || errdefs.IsUnavailable(err) {
		t.Errorf("got %v", err)
	}
	pod, objects = claimed()
	dirs := &fakeDirs{fail: map[string]error{`volume data /mnt/disk type=""`: fmt.Errorf("the link is down: %w", errdefs.ErrUnavailable)}}
	if err := newManager(dirs, objects).Prepare(t.Context(), pod, false); errors.As(err, &unmounted) || !errdefs.IsUnavailable(err) {
		t.Errorf("got %v, calls %q", err, dirs.calls)
	}
}

func TestClaimThatIsDeletedStaysWithAPodThatHasBegun(t *testing.T) {
	going := func(_ *v1.Pod, c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
		c.DeletionTimestamp = ptr.To(metav1.NewTime(time.Now()))
	}
	pod, objects := claimed()
	dirs := &fakeDirs{}
	m := newManager(dirs, objects)
	if err := m.Prepare(t.Context(), pod, false); err != nil {
		t.Fatal(err)
	}
	_, gone := claimed(going)
	*objects = *gone
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug"}}}
	if err := m.Prepare(t.Context(), pod, false); err != nil || len(dirs.volumes) != 1 {
		t.Errorf("a debug container: %v, volumes %v", err, dirs.volumes)
	}
	for what, status := range map[string]v1.ContainerStatus{
		"running": {State: v1.ContainerState{Running: &v1.ContainerStateRunning{}}}, "ended": {State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}},
		"started again": {LastTerminationState: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}, "waiting": {},
	} {
		pod.Status.ContainerStatuses = []v1.ContainerStatus{status}
		err := newManager(&fakeDirs{}, objects).Prepare(t.Context(), pod, false)
		if begun := what != "waiting"; begun != (err == nil) {
			t.Errorf("%s, after a restart of the node: %v", what, err)
		}
	}
}
