// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/test/images"
)

// idMap is the mapping of users that a pod's container has, as the kernel says it: inside, on the host, how many.
func (k *tester) idMap(pod *v1.Pod) string {
	k.Helper()
	return strings.Join(strings.Fields(k.kubectl("exec", pod.Name, "--", "cat", "/proc/self/uid_map")), " ")
}

// TestPodsWithUserNamespaces: root in a pod is somebody else on the host, volumes belong to who they should, and no two pods are
// the same users, also after a restart of everything of ours. It has a host of its own, which is restarted.
func TestPodsWithUserNamespaces(t *testing.T) {
	t.Parallel()
	s := require(t).newSite("users")
	s.nodeArgs = []string{"--pod-max-pids=200"}
	s.startFor(t)
	k := on(t, s)
	_, err := k.client().CoreV1().Secrets(k.namespace).Create(k.Context(), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "tide"}, StringData: map[string]string{"table": "low at nine"},
	}, metav1.CreateOptions{})
	must(t, err)
	shared := filepath.Join(k.dir, "shared")
	must(t, os.Mkdir(shared, 0o700))
	k.persistent("shared", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: shared}}, v1.PersistentVolumeFilesystem)
	own := func(p *v1.Pod) {
		p.Spec.HostUsers = ptr.To(false)
		p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](2000)}
		p.Spec.Volumes = append(p.Spec.Volumes,
			v1.Volume{Name: "disk", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
			v1.Volume{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
			v1.Volume{Name: "tide", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "tide", DefaultMode: ptr.To[int32](0o400)}}},
			v1.Volume{Name: "shared", VolumeSource: claim("shared", false)},
			v1.Volume{Name: "image", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: images.Agnhost, PullPolicy: v1.PullIfNotPresent}}},
		)
		for _, name := range []string{"disk", "memory", "tide", "shared", "image"} {
			p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
		}
	}
	const script = `set -e
touch /disk/x /memory/x /shared/$HOSTNAME /marks/$HOSTNAME
echo written > /dev/termination-log
{ cat /tide/table; echo; stat -c %u:%g /disk/x /memory/x /shared/$HOSTNAME /marks/$HOSTNAME /tide/table /image/agnhost; } > /marks/seen-$HOSTNAME
mv /marks/seen-$HOSTNAME /marks/done-$HOSTNAME
trap "exit 0" TERM
sleep 1d & while :; do wait; done`
	a, b := k.create(k.pod("a", script, own)), k.create(k.pod("b", script, own))
	maps := map[string]string{}
	for _, pod := range []*v1.Pod{a, b} {
		k.awaitPodReady(pod)
		k.awaitMark("done-" + pod.Name)
		seen, err := os.ReadFile(k.mark("done-" + pod.Name))
		must(t, err)
		if want := "low at nine\n0:2000\n0:2000\n0:2000\n0:0\n0:2000\n0:0\n"; string(seen) != want {
			t.Errorf("pod %s sees %q, want %q", pod.Name, seen, want)
		}
		var inside, outside, length int
		maps[pod.Name] = k.idMap(pod)
		if _, err := fmt.Sscan(maps[pod.Name], &inside, &outside, &length); err != nil || inside != 0 || outside < 65536 || outside%65536 != 0 || length != 65536 {
			t.Errorf("pod %s has the mapping %q", pod.Name, maps[pod.Name])
		}
		for _, file := range []string{k.mark(pod.Name), filepath.Join(shared, pod.Name)} { // the mount is mapped, so that root inside is root outside
			info, err := os.Stat(file)
			must(t, err)
			if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
				t.Errorf("%s of pod %s belongs to %d on the host", file, pod.Name, owner)
			}
		}
	}
	k.requireOneOf([]string{"pids.max=200"}, k.groupFile(a, "", "pids.max"))
	if maps["a"] == maps["b"] {
		t.Fatalf("both pods have %s", maps["a"])
	}

	must(t, s.hostProc.Kill())
	s.killNode(t)
	must(t, s.startHost())
	s.restartNode(t)
	must(t, s.awaitReady(t.Context()))
	eventually(t, usual, "the program of pod a is told to end", func() error { // what the API says of the node may be of before
		_, err := k.tryKubectl(nil, "exec", "a", "--", "sh", "-c", "{ sleep 1; kill 1; } </dev/null >/dev/null 2>&1 &") // an answer that is lost would have it killed twice
		return err
	})
	k.await(a, usual, "was restarted", func(p *v1.Pod) error {
		if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount == 0 {
			return errNotYet
		}
		return ready(p)
	})
	c := k.create(k.pod("c", script, own))
	k.awaitPodReady(c)
	if again := k.idMap(a); again != maps["a"] {
		t.Errorf("pod a has %s after a restart instead of %s", again, maps["a"])
	}
	if third := k.idMap(c); third == maps["a"] || third == maps["b"] {
		t.Errorf("pod c has %s, which another pod has", third)
	}
	k.remove(a)
	k.awaitGone(a, usual)
	k.awaitCollected(a)
	if left, _ := filepath.Glob(filepath.Join(s.rootDir(), "pods", string(a.UID), "*")); len(left) > 0 {
		t.Errorf("left of pod a: %v", left)
	}
}
