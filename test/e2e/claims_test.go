// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// persistent makes a PersistentVolume with a claim that is bound to it, both of that name and for this test alone.
func (k *tester) persistent(name string, source v1.PersistentVolumeSource, mode v1.PersistentVolumeMode, change ...func(*v1.PersistentVolume)) {
	k.Helper()
	class, size := k.namespace, v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: k.namespace + "-" + name},
		Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, StorageClassName: class, VolumeMode: &mode, PersistentVolumeSource: source,
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			ClaimRef:                      &v1.ObjectReference{Namespace: k.namespace, Name: name},
		},
	}
	if source.Local != nil {
		pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{k.name}}}}}}}
	}
	for _, c := range change {
		c(pv)
	}
	_, err := k.client().CoreV1().PersistentVolumes().Create(k.Context(), pv, metav1.CreateOptions{})
	must(k.T, err)
	k.Cleanup(func() {
		_ = k.client().CoreV1().PersistentVolumes().Delete(context.WithoutCancel(k.Context()), pv.Name, metav1.DeleteOptions{})
	})
	_, err = k.client().CoreV1().PersistentVolumeClaims(k.namespace).Create(k.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: pv.Spec.AccessModes, StorageClassName: &class, VolumeMode: &mode, VolumeName: pv.Name,
			Resources: v1.VolumeResourceRequirements{Requests: size},
		}}, metav1.CreateOptions{})
	must(k.T, err)
	k.awaitBound(name)
}

func (k *tester) awaitBound(claim string) {
	k.Helper()
	eventually(k.T, usual, "claim "+claim+" is bound", func() error {
		c, err := k.client().CoreV1().PersistentVolumeClaims(k.namespace).Get(k.Context(), claim, metav1.GetOptions{})
		if err == nil && c.Status.Phase != v1.ClaimBound {
			err = fmt.Errorf("it is %s", c.Status.Phase)
		}
		return err
	})
}

func claim(name string, readOnly bool) v1.VolumeSource {
	return v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
}

// here binds a pod to the test's node without the scheduler, which waits for claims to be bound.
func (k *tester) here(p *v1.Pod) { p.Spec.NodeName, p.Spec.NodeSelector = k.name, nil }

// TestClaimsBoundToTheHostsDirectoriesAreMounted has claims bound to a local volume, for a group and in part, and to a path.
func TestClaimsBoundToTheHostsDirectoriesAreMounted(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	local, path := filepath.Join(k.dir, "local-dir"), filepath.Join(k.dir, "path-dir")
	for _, dir := range []string{local, path} {
		must(t, os.Mkdir(dir, 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "old"), []byte("kept"), 0o600))
	}
	k.persistent("local", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: local}}, v1.PersistentVolumeFilesystem)
	k.persistent("path", v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path, Type: ptr.To(v1.HostPathDirectory)}}, v1.PersistentVolumeFilesystem)
	writer := k.awaitPodReady(k.create(k.pod("writer", `
		echo new > /local/new && cat /local/old > /marks/local; echo x > /part/deep && echo part > /marks/part
		(cat /path/old; echo x > /path/new || echo refused) > /marks/path 2>&1; exec sleep 1d`,
		volumes(map[string]v1.VolumeSource{"local": claim("local", false), "path": claim("path", true)}),
		func(p *v1.Pod) {
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "local", MountPath: "/part", SubPath: "sub/dir"})
			c.SecurityContext = &v1.SecurityContext{RunAsUser: ptr.To[int64](1234), RunAsGroup: ptr.To[int64](1234)}
			p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321)}
			// The directory of a hostPath belongs to whom it belonged before.
			must(t, os.Chmod(path, 0o755))
			must(t, os.Chmod(filepath.Join(path, "old"), 0o644))
		})))
	k.saw("local", "kept", usual)
	k.saw("part", "part", usual)
	k.saw("path", "kept", usual)
	k.saw("path", "refused", usual)
	if _, err := os.Stat(filepath.Join(local, "sub/dir/deep")); err != nil {
		t.Error(err)
	}
	other := k.create(k.pod("other", "exec sleep 1d", volumes(map[string]v1.VolumeSource{"local": claim("local", false)}), func(p *v1.Pod) {
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](8765)}
	}))
	k.awaitEvent(other, "AlreadyMountedVolume", "The requested fsGroup is 8765, but the volume "+k.namespace+"-local has GID 4321. The volume may not be shareable.")
	k.remove(writer)
	k.awaitGone(writer, usual)
	for _, file := range []string{filepath.Join(local, "new"), filepath.Join(local, "old"), filepath.Join(path, "old")} {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("after the pod: %v", err)
		}
	}
}

// TestLocalVolumeForOnePodWithMountOptions has one that a second pod gets only when the first one is gone. Its options are those of the mount
// on the host; what runc makes of them in the container is its own business, with a kubelet as well.
func TestLocalVolumeForOnePodWithMountOptions(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	dir := filepath.Join(k.dir, "sole")
	must(t, os.Mkdir(dir, 0o777))
	k.persistent("sole", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: dir}}, v1.PersistentVolumeFilesystem, func(pv *v1.PersistentVolume) {
		pv.Spec.AccessModes, pv.Spec.MountOptions = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}, []string{"noexec", "nosuid"}
	})
	sole := volumes(map[string]v1.VolumeSource{"sole": claim("sole", false)})
	first := k.awaitPodReady(k.create(k.pod("first", `echo kept > /sole/file && echo done > /marks/first; trap "sleep 5; exit 0" TERM; sleep 1d & wait`, sole, k.here)))
	k.saw("first", "done", usual)
	mounts, err := k.host.Exec(t.Context(), "grep", string(first.UID)+"/volumes/kubernetes.io~local-volume/sole ", "/proc/mounts")
	must(t, err)
	for _, want := range []string{"noexec", "nosuid"} {
		if !strings.Contains(mounts, want) {
			t.Errorf("mounted as %s, without %s", mounts, want)
		}
	}
	second := k.create(k.pod("second", "cat /sole/file > /marks/second; exec sleep 1d", sole, k.here))
	k.awaitEvent(second, "FailedMount", `MountVolume.SetUp failed for volume "`+k.namespace+
		`-sole" : volume uses the ReadWriteOncePod access mode and is already in use by another pod`)
	k.remove(first)
	k.awaitGone(first, usual)
	k.awaitPodReady(second)
	k.saw("second", "kept", usual)
	if _, err := os.Stat(filepath.Join(dir, "file")); err != nil {
		t.Errorf("after the pod: %v", err)
	}
}

// TestDiskOfAClaimIsADevice passes a block device into a container. No program serves this one.
func TestDiskOfAClaimIsADevice(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	disk := filepath.Join(k.dir, "disk")
	_, err := k.host.Exec(t.Context(), "mknod", disk, "b", "7", "250")
	must(t, err)
	k.persistent("disk", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}}, v1.PersistentVolumeBlock)
	k.awaitPodReady(k.create(k.pod("reader", `test -b /dev/disk && stat -c %t:%T /dev/disk > /marks/device; exec sleep 1d`, func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "disk", VolumeSource: claim("disk", false)})
		p.Spec.Containers[0].VolumeDevices = []v1.VolumeDevice{{Name: "disk", DevicePath: "/dev/disk"}}
	})))
	k.saw("device", "7:fa", usual)
}

// TestGenericEphemeralVolumeIsMountedAndGoesWithThePod has a claim made from a pod.
func TestGenericEphemeralVolumeIsMountedAndGoesWithThePod(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	dir := filepath.Join(k.dir, "scratch")
	must(t, os.Mkdir(dir, 0o777))
	pv, err := k.client().CoreV1().PersistentVolumes().Create(t.Context(), &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: k.namespace + "-scratch"},
		Spec: v1.PersistentVolumeSpec{
			Capacity: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			StorageClassName: k.namespace, PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
		}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = k.client().CoreV1().PersistentVolumes().Delete(context.WithoutCancel(k.Context()), pv.Name, metav1.DeleteOptions{})
	})
	pod := k.awaitPodReady(k.create(k.pod("owner", `echo mine > /scratch/file && echo done > /marks/done; exec sleep 1d`,
		volumes(map[string]v1.VolumeSource{"scratch": {Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &k.namespace,
				Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Mi")}},
			}}}}}))))
	k.saw("done", "done", usual)
	k.remove(pod)
	k.awaitGone(pod, usual)
}

// TestWhatIsWrongWithAClaimIsTold has pods with claims that are missing, not bound, somebody else's, and bound to what the node
// cannot mount. One of them starts when its claim is bound.
func TestWhatIsWrongWithAClaimIsTold(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	dir := filepath.Join(k.dir, "late")
	must(t, os.Mkdir(dir, 0o777))
	k.persistent("shared", v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "192.0.2.9", Path: "/x"}}, v1.PersistentVolumeFilesystem)
	k.persistent("lost", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: filepath.Join(k.dir, "missing")}}, v1.PersistentVolumeFilesystem)
	for name, text := range map[string]string{
		"none":   "failed to process volumes=[data]: error processing PVC " + k.namespace + `/none: failed to fetch PVC from API server: persistentvolumeclaims "none" `,
		"late":   "error processing PVC " + k.namespace + `/late: failed to fetch PVC from API server: `,
		"shared": `MountVolume.SetUp failed for volume "` + k.namespace + `-shared" : PersistentVolumes of type nfs are not mounted by this node; use one of type local or hostPath`,
		"lost":   `MountVolume.SetUp failed for volume "` + k.namespace + `-lost" : path "` + filepath.Join(k.dir, "missing") + `" does not exist`,
	} {
		pod := k.create(k.pod(name, "exec sleep 1d", volumes(map[string]v1.VolumeSource{"data": claim(name, false)}), k.here))
		k.awaitEvent(pod, "FailedMount", text)
		if name == "late" {
			k.persistent("late", v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: dir}}, v1.PersistentVolumeFilesystem)
			k.awaitPodReady(pod)
		}
	}
}
