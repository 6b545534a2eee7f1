// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/test/images"
)

// refreshed is how soon a pod must see a change of what its volumes show.
const refreshed = 10 * time.Second

// objects makes a ConfigMap and a Secret of that name with the same content.
func (k *tester) objects(name, content string) {
	k.Helper()
	_, err := k.client().CoreV1().ConfigMaps(k.namespace).Create(k.Context(), &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": content, "b": content}}, metav1.CreateOptions{})
	must(k.T, err)
	_, err = k.client().CoreV1().Secrets(k.namespace).Create(k.Context(), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"a": content, "b": content}}, metav1.CreateOptions{})
	must(k.T, err)
}

// change gives them another content.
func (k *tester) change(name, content string) {
	k.Helper()
	cm, err := k.client().CoreV1().ConfigMaps(k.namespace).Get(k.Context(), name, metav1.GetOptions{})
	must(k.T, err)
	cm.Data = map[string]string{"a": content, "b": content}
	_, err = k.client().CoreV1().ConfigMaps(k.namespace).Update(k.Context(), cm, metav1.UpdateOptions{})
	must(k.T, err)
	secret, err := k.client().CoreV1().Secrets(k.namespace).Get(k.Context(), name, metav1.GetOptions{})
	must(k.T, err)
	secret.Data = map[string][]byte{"a": []byte(content), "b": []byte(content)}
	_, err = k.client().CoreV1().Secrets(k.namespace).Update(k.Context(), secret, metav1.UpdateOptions{})
	must(k.T, err)
}

// volumes adds volumes, mounted at /NAME in every container.
func volumes(all map[string]v1.VolumeSource) func(*v1.Pod) {
	return func(p *v1.Pod) {
		for name, source := range all {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
			for i := range p.Spec.Containers {
				c := &p.Spec.Containers[i]
				c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
			}
		}
	}
}

// saw waits until a mark of a pod contains the text.
func (k *tester) saw(mark, want string, within time.Duration) {
	k.Helper()
	eventually(k.T, within, "the pod sees "+want+" in "+mark, func() error {
		data, err := os.ReadFile(k.mark(mark))
		if err == nil && !strings.Contains(string(data), want) {
			err = fmt.Errorf("it has %q", data)
		}
		return err
	})
}

// TestVolumesShowObjectsAndFollowThem changes a ConfigMap and a Secret under a pod that watches them, looks for the secret on
// the host's disk, and takes the volumes away with the pod.
func TestVolumesShowObjectsAndFollowThem(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	const first, second = "first-c0ffee5ec2e7", "second-c0ffee5ec2e7"
	k.objects("settings", first)
	pod := k.awaitPodReady(k.create(k.pod("reader", `
		stat -c %a:%g /secret/..data/a > /marks/modes; cat /proc/mounts > /marks/mounts
		while :; do
			cat /config/a /config/b /secret/a /secret/b > /marks/.seen; mv /marks/.seen /marks/seen
			cat /labels/labels > /marks/.labels; mv /marks/.labels /marks/labels; sleep 0.2
		done`,
		volumes(map[string]v1.VolumeSource{
			"config": {ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
			"secret": {Secret: &v1.SecretVolumeSource{SecretName: "settings", DefaultMode: ptr.To[int32](0o400)}},
			"labels": {DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
				{Path: "labels", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.labels"}}}}},
		}),
		func(p *v1.Pod) { p.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](4321)} },
	)))
	k.saw("seen", strings.Repeat(first, 4), usual)
	k.saw("modes", "440:4321", usual)
	k.saw("mounts", "tmpfs /secret tmpfs ro", usual)

	k.change("settings", second)
	k.saw("seen", strings.Repeat(second, 4), refreshed)
	_, err := k.client().CoreV1().Pods(k.namespace).Patch(t.Context(), pod.Name, "application/merge-patch+json",
		[]byte(`{"metadata":{"labels":{"tide":"high"}}}`), metav1.PatchOptions{})
	must(t, err)
	k.saw("labels", `tide="high"`, refreshed)

	// Memory is mounted on the host, so that its disk is what this side sees below the same paths: files of ConfigMaps and no others.
	k.notOnDisk(string(pod.UID), second)
	k.remove(pod)
	k.awaitGone(pod, usual)
	mounts, err := k.host.Exec(t.Context(), "cat", "/proc/self/mounts")
	must(t, err)
	if strings.Contains(mounts, string(pod.UID)) {
		t.Errorf("something of the pod is still mounted:\n%s", mounts)
	}
}

// notOnDisk looks for a secret's bytes in the directories of the pod's Secret volumes, below the mounts.
func (k *tester) notOnDisk(uid, secret string) {
	k.Helper()
	script := `set -e; top=$(grep -o "[^ ]*/pods/` + uid + `" /proc/self/mounts | head -n 1); root=${top%/pods/*}
		mkdir -p /tmp/bare && mount --bind "$root" /tmp/bare
		found=$(grep -rl ` + secret + ` /tmp/bare --exclude-dir=kubernetes.io~configmap --exclude-dir=kubernetes.io~host-path || true)
		umount /tmp/bare; echo "looked below $root"; echo "$found"`
	out, err := k.host.Exec(k.Context(), "sh", "-c", script)
	must(k.T, err)
	if !strings.Contains(out, "looked below /") || strings.Count(strings.TrimSpace(out), "\n") > 0 {
		k.Errorf("the secret is on the host's disk: %s", out)
	}
}

// TestPodWaitsForWhatItsVolumesReferTo has a pod that names a ConfigMap before it is made.
func TestPodWaitsForWhatItsVolumesReferTo(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.create(k.pod("early", "exec sleep 1d", volumes(map[string]v1.VolumeSource{
		"config": {ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "late"}}},
		"maybe":  {Secret: &v1.SecretVolumeSource{SecretName: "never", Optional: ptr.To(true)}},
	})))
	k.awaitEvent(pod, "FailedMount", `MountVolume.SetUp failed for volume "config" : configmap "late" not found`)
	k.objects("late", "x")
	k.awaitPodReady(pod)
}

// TestAPodsTokenIsGoodForTheAPI asks the API server with what a program in a pod finds where every program looks for it.
func TestAPodsTokenIsGoodForTheAPI(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	pod := k.awaitPodReady(k.create(k.pod("client", `cd /var/run/secrets/kubernetes.io/serviceaccount
		cat namespace > /marks/namespace; cat ca.crt > /marks/ca; cat token > /marks/token; exec sleep 1d`,
		func(p *v1.Pod) { p.Spec.AutomountServiceAccountToken = nil })))
	k.saw("namespace", k.namespace, usual)
	k.saw("ca", "BEGIN CERTIFICATE", usual)
	k.saw("token", ".", usual)
	token, err := os.ReadFile(k.mark("token"))
	must(t, err)
	config := rest.AnonymousClientConfig(k.env.cluster.RESTConfig())
	config.BearerToken = string(token)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	who, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	must(t, err)
	user := who.Status.UserInfo
	if user.Username != "system:serviceaccount:"+k.namespace+":default" || !slices.Contains(user.Extra["authentication.kubernetes.io/pod-uid"], string(pod.UID)) {
		t.Errorf("the token is that of %+v", user)
	}
}

// TestPartsOfVolumesAreMounted mounts parts of several kinds of volumes, and none that leads elsewhere.
func TestPartsOfVolumesAreMounted(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	k.objects("settings", "one")
	memory := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}
	pod := k.awaitPodReady(k.create(k.pod("parts",
		`echo x > /deep/file; ls /memory/logs/web > /marks/logs; cat /one > /marks/one; stat -f -c %T /memory > /marks/type; exec sleep 1d`,
		volumes(map[string]v1.VolumeSource{"memory": memory}),
		func(p *v1.Pod) {
			p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "config", VolumeSource: v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}}})
			c := &p.Spec.Containers[0]
			c.Env = []v1.EnvVar{{Name: "WHO", Value: "web"}}
			c.VolumeMounts = append(c.VolumeMounts,
				v1.VolumeMount{Name: "memory", MountPath: "/deep", SubPathExpr: "logs/$(WHO)"},
				v1.VolumeMount{Name: "config", MountPath: "/one", SubPath: "a"})
			c.Resources.Limits = v1.ResourceList{v1.ResourceMemory: resource.MustParse("64Mi")}
		})))
	k.saw("logs", "file", usual)
	k.saw("one", "one", usual)
	k.saw("type", "tmpfs", usual)

	thief := k.create(k.pod("thief", "exec sleep 1d", volumes(map[string]v1.VolumeSource{"bag": {EmptyDir: &v1.EmptyDirVolumeSource{}}}),
		func(p *v1.Pod) {
			digger := shell("digger", "ln -s / /bag/root")
			digger.VolumeMounts = append(digger.VolumeMounts, v1.VolumeMount{Name: "bag", MountPath: "/bag"})
			p.Spec.InitContainers = append(p.Spec.InitContainers, digger)
			p.Spec.Containers = append(p.Spec.Containers, v1.Container{
				Name: "hand", Image: images.Busybox, ImagePullPolicy: v1.PullIfNotPresent, Command: []string{"sleep", "1d"},
				VolumeMounts: []v1.VolumeMount{{Name: "bag", MountPath: "/loot", SubPath: "root/etc"}},
			})
		}))
	k.awaitEvent(thief, "Failed", `Error: failed to prepare subPath for volumeMount "bag" of container "hand"`)
	for _, p := range []*v1.Pod{pod, thief} {
		k.remove(p)
		k.awaitGone(p, usual)
	}
}

// TestImagesAreMounted mounts an image as a volume, whole and in part, and has one that does not exist.
func TestImagesAreMounted(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	tools := v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: images.Agnhost, PullPolicy: v1.PullIfNotPresent}}
	k.awaitPodReady(k.create(k.pod("tools", `
		test -x /tools/agnhost && echo whole > /marks/whole; ls /part > /marks/part
		touch /tools/new 2> /marks/write; exec sleep 1d`,
		volumes(map[string]v1.VolumeSource{"tools": tools}), func(p *v1.Pod) {
			c := &p.Spec.Containers[0]
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "tools", MountPath: "/part", SubPath: "etc"})
		})))
	k.saw("whole", "whole", usual)
	k.saw("part", "passwd", usual)
	k.saw("write", "Read-only file system", usual)

	none := v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "registry.invalid/none:1", PullPolicy: v1.PullNever}}
	pod := k.create(k.pod("none", "exec sleep 1d", volumes(map[string]v1.VolumeSource{"tools": none})))
	k.awaitEvent(pod, "Failed", "Error: ErrImageNeverPull")
	k.awaitEvent(pod, "ErrImageNeverPull", `Container image "registry.invalid/none:1" is not present with pull policy of Never`)
}

// TestMountsBelowAReadOnlyMountAreReadOnlyIfThatIsAskedFor has a mount of the host below what a pod mounts.
func TestMountsBelowAReadOnlyMountAreReadOnlyIfThatIsAskedFor(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	outer, inner := k.mark("outer"), k.mark("outer/inner")
	must(t, os.MkdirAll(inner, 0o777))
	_, err := k.host.Exec(t.Context(), "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", inner)
	must(t, err)
	t.Cleanup(func() { _, _ = k.host.Exec(context.WithoutCancel(t.Context()), "umount", "-l", inner) })
	mount := func(name string, mode v1.RecursiveReadOnlyMode) v1.VolumeMount {
		return v1.VolumeMount{Name: "outer", MountPath: "/" + name, ReadOnly: true, RecursiveReadOnly: &mode}
	}
	pod := k.awaitPodReady(k.create(k.pod("reader", `
		for way in disabled possible enabled; do
			touch /$way/file 2> /dev/null && echo $way outer; touch /$way/inner/file 2> /dev/null && echo $way inner
		done > /marks/written; echo all >> /marks/written; exec sleep 1d`, func(p *v1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: "outer", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: outer}}})
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, mount("disabled", v1.RecursiveReadOnlyDisabled), mount("possible", v1.RecursiveReadOnlyIfPossible),
			mount("enabled", v1.RecursiveReadOnlyEnabled))
	})))
	k.saw("written", "all", usual)
	written, err := os.ReadFile(k.mark("written"))
	must(t, err)
	if string(written) != "disabled inner\nall\n" {
		t.Errorf("the pod could write to %q, want what is below the mount that is not recursive", written)
	}
	modes := map[string]v1.RecursiveReadOnlyMode{}
	for _, m := range pod.Status.ContainerStatuses[0].VolumeMounts {
		if m.RecursiveReadOnly != nil {
			modes[m.MountPath] = *m.RecursiveReadOnly
		}
	}
	want := map[string]v1.RecursiveReadOnlyMode{
		"/disabled": v1.RecursiveReadOnlyDisabled, "/possible": v1.RecursiveReadOnlyEnabled, "/enabled": v1.RecursiveReadOnlyEnabled,
	}
	if !maps.Equal(modes, want) {
		t.Errorf("the status says %v, want %v", modes, want)
	}
}

// TestHugePagesThatTheHostLacksAreNamed has a pod that wants what no host of the tests has.
func TestHugePagesThatTheHostLacksAreNamed(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	huge := v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"}}
	k.awaitEvent(k.create(k.pod("huge", "exec sleep 1d", volumes(map[string]v1.VolumeSource{"huge": huge}))), "FailedMount",
		`MountVolume.SetUp failed for volume "huge" : medium HugePages-2Mi: hugePages storage requested, but there is no resource request for huge pages`)
}

// TestTrustBundlesAreShownAndFollowed has a pod with the certificates of a ClusterTrustBundle, which changes.
func TestTrustBundlesAreShownAndFollowed(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).calm)
	ca, err := os.ReadFile(k.env.cluster.CAFile())
	must(t, err)
	link, err := os.ReadFile(k.linkFile("ca.crt"))
	must(t, err)
	api := k.client().CertificatesV1().ClusterTrustBundles()
	bundle, err := api.Create(t.Context(), &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: k.namespace}, Spec: certificatesv1.ClusterTrustBundleSpec{TrustBundle: string(ca)}}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { _ = api.Delete(context.WithoutCancel(t.Context()), bundle.Name, metav1.DeleteOptions{}) })
	sources := []v1.VolumeProjection{
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &bundle.Name, Path: "named"}},
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{SignerName: ptr.To("example.com/none"), LabelSelector: &metav1.LabelSelector{}, Optional: ptr.To(true), Path: "none"}},
	}
	k.awaitPodReady(k.create(k.pod("trusting", `wc -c < /trust/none > /marks/none
		while :; do grep -c BEGIN /trust/named > /marks/.count; mv /marks/.count /marks/count; sleep 0.2; done`,
		volumes(map[string]v1.VolumeSource{"trust": {Projected: &v1.ProjectedVolumeSource{Sources: sources}}}))))
	k.saw("count", "1", usual)
	k.saw("none", "0", usual)
	bundle.Spec.TrustBundle += string(link)
	_, err = api.Update(t.Context(), bundle, metav1.UpdateOptions{})
	must(t, err)
	k.saw("count", "2", refreshed)
}
