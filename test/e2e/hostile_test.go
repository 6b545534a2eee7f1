// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/test/images"
)

// treasure makes a directory of the host that no pod of the test is given, and returns its path.
func (k *tester) treasure() string {
	k.Helper()
	dir := filepath.Join(k.marks(), "treasure-"+k.namespace)
	must(k.T, os.Mkdir(dir, 0o777))
	must(k.T, os.Chmod(dir, 0o777))
	must(k.T, os.WriteFile(filepath.Join(dir, "gold"), []byte("gold"), 0o666))
	return dir
}

// requireUntouchedTreasure checks that the directory is as it was made.
func (k *tester) requireUntouchedTreasure(dir string) {
	k.Helper()
	entries, err := os.ReadDir(dir)
	must(k.T, err)
	gold, err := os.ReadFile(filepath.Join(dir, "gold"))
	must(k.T, err)
	if len(entries) != 1 || string(gold) != "gold" {
		k.Errorf("the treasure was touched: %v, %q", entries, gold)
	}
	if _, err := os.Stat(k.mark("breach")); err == nil {
		k.Error("a pod saw the treasure")
	}
}

// pirate is a pod with an emptyDir "bag", which a sidecar fills before anything else starts, and containers that each mount a part.
func (k *tester) pirate(name, sidecar, hand string, parts ...v1.VolumeMount) *v1.Pod {
	return k.pod(name, "exec sleep 1d", func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "bag", VolumeSource: v1.VolumeSource{
			EmptyDir: &v1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("64Mi"))}}})
		digger := shell("digger", sidecar)
		digger.RestartPolicy = ptr.To(v1.ContainerRestartPolicyAlways)
		digger.VolumeMounts = append(digger.VolumeMounts, v1.VolumeMount{Name: "bag", MountPath: "/bag"})
		digger.Resources.Limits = v1.ResourceList{v1.ResourceCPU: resource.MustParse("300m")}
		digger.StartupProbe = &v1.Probe{PeriodSeconds: 1, FailureThreshold: 60, ProbeHandler: v1.ProbeHandler{
			Exec: &v1.ExecAction{Command: []string{"test", "-e", "/bag/ready"}}}}
		p.Spec.InitContainers = []v1.Container{digger}
		for i, part := range parts {
			c := shell(fmt.Sprintf("hand-%d", i), hand)
			part.Name, part.MountPath = "bag", "/loot"
			c.VolumeMounts = append(c.VolumeMounts, part)
			c.Env = []v1.EnvVar{{Name: "UP", Value: "../../../../.."}}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	})
}

// grab is what a container does with what it was given.
const grab = `if [ -e /loot/gold ]; then echo "$HOSTNAME" >> /marks/breach; fi; echo x > /loot/touched; `

// TestHostilePodGetsNothingOutsideItsVolumes has a pod whose volume is full of ways out of it.
func TestHostilePodGetsNothingOutsideItsVolumes(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	gold := k.treasure()
	script := `cd /bag; ln -s ` + gold + ` out; ln -s / root; ln -s ../../../../../../../../../../../../../../.. up
		mkdir inside; ln -s ` + gold + ` inside/out; ln -s ../out inside/chain; ln -s loop loop
		mknod mem c 1 1; mknod disk b 254 0; mkfifo pipe; ln -s ` + gold + `/missing dangling; ln -s inside fine
		mkdir -p deep; cd deep; i=0; while [ $i -lt 200 ]; do mkdir d; cd d; i=$((i+1)); done; cd /bag
		touch "$(printf 'a\nb')" -- '-rf' '..x'; chmod 0000 inside/out 2> /dev/null; touch ready; exec sleep 1d`
	refused := []v1.VolumeMount{
		{SubPath: "out"}, {SubPath: "out/deeper"}, {SubPath: "root" + gold}, {SubPath: "up" + gold}, {SubPath: "inside/out"}, {SubPath: "inside/chain/x"},
		{SubPath: "loop"}, {SubPath: "dangling"}, {SubPathExpr: "$(UP)" + gold},
	}
	pod := k.create(k.pirate("pirate", script, grab+"exec sleep 1d", append(refused, v1.VolumeMount{SubPath: "fine"}, v1.VolumeMount{SubPath: "mem"})...))
	pod = k.await(pod, usual, "every way out is refused", func(p *v1.Pod) error {
		waiting := 0
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Waiting != nil && c.State.Waiting.Reason == "CreateContainerConfigError" {
				waiting++
			}
		}
		if waiting < len(refused) {
			return fmt.Errorf("%d containers are refused, want %d: %+v", waiting, len(refused), p.Status.ContainerStatuses)
		}
		return nil
	})
	for _, c := range pod.Status.ContainerStatuses {
		var number int
		if _, err := fmt.Sscanf(c.Name, "hand-%d", &number); err == nil && number < len(refused) && (c.State.Running != nil || c.RestartCount > 0) {
			t.Errorf("container %s ran with %+v", c.Name, refused[number])
		}
	}
	// A device file is no device to who may not have it.
	for device, text := range map[string]string{"/bag/mem": "not permitted", "/bag/disk": "not permitted"} {
		out, err := k.tryKubectl(nil, "exec", pod.Name, "-c", "digger", "--", "dd", "if="+device, "bs=1", "count=1")
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("reading %s: %q, %v", device, out, err)
		}
	}
	if n := len(k.eventsOf(pod, "Evicted")); n > 0 {
		t.Error("what links in a volume lead to was counted")
	}
	k.requireUntouchedTreasure(gold)
	k.remove(pod)
	k.awaitGone(pod, usual)
	k.awaitCollected(pod)
	k.requireUntouchedTreasure(gold)
}

// TestDirectoriesThatAreSwappedWhileTheyAreMountedLeadNowhere has a sidecar that replaces a directory by a link out of the volume and back
// without pause, while containers that mount it are started again and again.
func TestDirectoriesThatAreSwappedWhileTheyAreMountedLeadNowhere(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	gold := k.treasure()
	swapper := `cd /bag; touch ready
		while :; do i=$((i+1)); test $((i % 50)) -gt 0 || sleep 1; mkdir -p part/deep; mv part gone$i; ln -s ` + gold + ` part; rm -f part; mv gone$i part; done 2> /dev/null`
	parts := make([]v1.VolumeMount, 4)
	for i := range parts {
		parts[i] = v1.VolumeMount{SubPath: "part", ReadOnly: i%2 == 0}
		if i%3 == 0 {
			parts[i].SubPath = "part/deep"
		}
	}
	pod := k.create(k.pirate("swapper", swapper, grab+"echo x >> /marks/grabs; exit 1", parts...))
	eventually(t, usual, "containers got a part of the volume", func() error {
		if n := k.lines("grabs"); n < 6 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	k.remove(pod)
	k.awaitGone(pod, usual)
	k.awaitCollected(pod)
	k.requireUntouchedTreasure(gold)
}

// TestImagesWithOddNamesAreNoPaths has images and volumes that are named as paths.
func TestImagesWithOddNamesAreNoPaths(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	for name, reference := range map[string]string{"absolute": "/etc/passwd", "up": "../../etc/passwd", "file": "file:///etc/passwd"} {
		pod := k.create(k.pod(name, "exec sleep 1d", func(p *v1.Pod) { p.Spec.Containers[0].Image = reference }))
		k.awaitEvent(pod, "Failed", "Error: InvalidImageName")
	}
	pod := k.create(k.pod("part", "exec sleep 1d", func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "image", VolumeSource: v1.VolumeSource{
			Image: &v1.ImageVolumeSource{Reference: images.Agnhost, PullPolicy: v1.PullIfNotPresent}}})
		c := &p.Spec.Containers[0]
		c.Env = []v1.EnvVar{{Name: "UP", Value: "../.."}}
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "image", MountPath: "/loot", SubPathExpr: "$(UP)/etc"})
	}))
	k.awaitEvent(pod, "Failed", "must not contain '..'")
}
