// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// secretMarker is in the secrets of TestSecretsAreInMemoryOnly, whose parts follow it. It has no meaning in base64 either.
const secretMarker = "tide-c0ffee5ec2e7-"

// tokenVolume is a projected volume with a token and a secret.
func tokenVolume(secret string) v1.VolumeSource {
	return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](600)}},
		{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: secret}}},
	}}}
}

// TestSecretsAreInMemoryOnly looks for what pods were given in secret, in every way there is, wherever it must not be, with logs
// at the highest level. It has a host of its own for that.
func TestSecretsAreInMemoryOnly(t *testing.T) {
	t.Parallel()
	s := require(t).newSite("secretive")
	s.hostArgs, s.nodeArgs = []string{"-v=10"}, []string{"-v=10"}
	s.startFor(t)
	k := on(t, s)
	k.objects("settings", secretMarker+"first")
	_, err := k.client().CoreV1().Secrets(k.namespace).Create(k.Context(), &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "pull"}, Type: v1.SecretTypeDockerConfigJson, Data: map[string][]byte{
			v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"127.0.0.1:1":{"username":"ferry","password":%q}}}`, secretMarker+"pull"),
		}}, metav1.CreateOptions{})
	must(t, err)
	ref := v1.LocalObjectReference{Name: "settings"}
	pod := k.awaitPodReady(k.create(k.pod("keeper", `test "$A" = "$(cat /secret/a)" && test "$(cat /part)" = "$A"
		while :; do cat /secret/a /both/b > /dev/shm/seen; cp /both/token /marks/token; sleep 0.2; done`,
		volumes(map[string]v1.VolumeSource{"secret": {Secret: &v1.SecretVolumeSource{SecretName: "settings"}}, "both": tokenVolume("settings")}),
		func(p *v1.Pod) {
			c := &p.Spec.Containers[0]
			c.Env = []v1.EnvVar{{Name: "A", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: ref, Key: "a"}}}}
			c.EnvFrom = []v1.EnvFromSource{{Prefix: "ALL_", SecretRef: &v1.SecretEnvSource{LocalObjectReference: ref}}}
			c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "secret", MountPath: "/part", SubPath: "a"})
			c.Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", "echo stopping"}}}}
			c.ReadinessProbe = &v1.Probe{PeriodSeconds: 1, ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{"test", "-f", "/secret/a"}}}}
		})))
	refused := k.create(k.pod("refused", "exec sleep 1d", func(p *v1.Pod) {
		p.Spec.ImagePullSecrets = []v1.LocalObjectReference{{Name: "pull"}}
		p.Spec.Containers[0].Image = "127.0.0.1:1/nobody/listens:v1"
	}))
	k.awaitEvent(refused, "Failed", "connection refused")
	k.change("settings", secretMarker+"second")
	eventually(t, usual, "the pod sees the change", func() error {
		seen, err := k.tryKubectl(nil, "exec", pod.Name, "--", "cat", "/dev/shm/seen")
		if err == nil && strings.Count(seen, "second") != 2 {
			err = fmt.Errorf("it sees %d changes", strings.Count(seen, "second"))
		}
		return err
	})
	token, err := os.ReadFile(k.mark("token"))
	must(t, err)
	signature := token[bytes.LastIndexByte(token, '.')+1:]
	k.requireSecret([]byte(secretMarker), signature)
	k.remove(pod)
	k.awaitGone(pod, usual)
	k.awaitCollected(pod)
	k.requireSecret([]byte(secretMarker), signature)
}

// requireSecret fails the test if one of the secrets is on the host's disk, where this side sees no memory that is mounted there,
// or in a log, an event, a metric, the status of a pod or of the node, or the arguments of a process.
func (k *tester) requireSecret(secrets ...[]byte) {
	k.Helper()
	files := []string{k.nodeProc.LogFile(), k.hostProc.LogFile()}
	for _, dir := range []string{k.rootDir(), k.logsDir()} {
		must(k.T, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			// The content of the ConfigMap of the same name is no secret.
			if err == nil && d.Type().IsRegular() && !strings.Contains(path, "kubernetes.io~configmap") {
				files = append(files, path)
			}
			return nil // what goes away meanwhile is not there
		}))
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(k.T, err)
	places := map[string][]byte{}
	for _, file := range append(files, lines...) {
		if content, err := os.ReadFile(file); err == nil {
			places[file] = content
		}
	}
	if len(places[files[0]]) == 0 || len(places[files[1]]) == 0 {
		k.Errorf("the logs are empty: %v", files[:2])
	}
	events, err := k.client().CoreV1().Events("").List(k.Context(), metav1.ListOptions{})
	must(k.T, err)
	pods, err := k.client().CoreV1().Pods(k.namespace).List(k.Context(), metav1.ListOptions{})
	must(k.T, err)
	node, err := k.client().CoreV1().Nodes().Get(k.Context(), k.name, metav1.GetOptions{})
	must(k.T, err)
	for what, object := range map[string]any{"events": events, "pods": pods, "node": node} {
		places[what], err = json.Marshal(object)
		must(k.T, err)
	}
	places["metrics of the node"], places["metrics of the host"] = []byte(k.nodeMetrics()), []byte(k.hostMetrics())
	for where, content := range places {
		for _, secret := range secrets {
			if i := bytes.Index(content, secret); i >= 0 {
				k.Errorf("%s has a secret: …%q…", where, content[max(0, i-200):min(len(content), i+len(secret)+40)])
			}
		}
	}
}

// TestTokensAndSecretsFollowAfterTheLinkWasCut: the node changes processes, and with them its tokens, while the host is out of
// reach. What is new comes when it is back, and no container is restarted for it.
func TestTokensAndSecretsFollowAfterTheLinkWasCut(t *testing.T) {
	t.Parallel()
	s := require(t).ownSite(t, "islet")
	k := on(t, s)
	k.objects("settings", "first")
	pod := k.awaitPodReady(k.create(k.pod("keeper", `while :; do
		cat /both/b > /marks/.seen; mv /marks/.seen /marks/seen; cat /both/token > /marks/.token; mv /marks/.token /marks/token; sleep 0.2; done`,
		volumes(map[string]v1.VolumeSource{"both": tokenVolume("settings")}))))
	k.saw("seen", "first", usual)
	k.saw("token", ".", usual)
	before, err := os.ReadFile(k.mark("token"))
	must(t, err)

	must(t, s.host.Disconnect(t.Context()))
	k.change("settings", "second")
	s.killNode(t)
	s.restartNode(t)
	eventually(t, usual, "the node knows that the host is out of reach", func() error {
		c, err := s.readyCondition(t.Context())
		if err == nil && c.Status == v1.ConditionTrue {
			err = errNotYet
		}
		return err
	})
	must(t, s.host.Reconnect(t.Context()))
	must(t, s.awaitReady(t.Context()))
	k.saw("seen", "second", usual)
	var after []byte
	eventually(t, usual, "the pod has another token", func() error {
		if after, err = os.ReadFile(k.mark("token")); err == nil && bytes.Equal(before, after) {
			err = errNotYet
		}
		return err
	})
	review, err := k.client().AuthenticationV1().TokenReviews().Create(t.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: string(after)}}, metav1.CreateOptions{})
	must(t, err)
	if !review.Status.Authenticated || review.Status.User.Username != "system:serviceaccount:"+k.namespace+":default" {
		t.Errorf("the new token is that of %+v", review.Status)
	}
	k.requireUntouched(pod)
}
