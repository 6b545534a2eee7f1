// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/test/images"
)

const (
	// privateVariable makes the test binary a registry that serves an archive to who has a login. The runtime speaks plain
	// HTTP to a registry on its own loopback, so the binary has to run on the host.
	privateVariable = "TOMBOLO_E2E_PRIVATE_REGISTRY"
	privateRegistry = "127.0.0.1:5998"
	privateUser     = "ferry"
	privatePassword = "low tide at nine"
)

// servePrivately is the registry. It ends with the process.
func servePrivately(archive string) {
	registry, err := images.OpenRegistry(archive)
	if err != nil {
		panic(err)
	}
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", privateRegistry)
	if err != nil {
		panic(err)
	}
	panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != privateUser || password != privatePassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="private"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		registry.ServeHTTP(w, r)
	})))
}

// privateRegistry starts the registry on the host of the test's site.
func (k *tester) privateRegistry() {
	k.Helper()
	archive, err := k.env.cluster.ImageArchive(k.Context())
	must(k.T, err)
	self, err := os.Executable()
	must(k.T, err)
	cmd := k.host.Command(context.Background(), self)
	cmd.Env = append(cmd.Env, privateVariable+"="+archive)
	p, err := k.host.Run(k.namespace+"-private-registry", cmd)
	must(k.T, err)
	k.Cleanup(func() {
		if err := p.Kill(); err != nil {
			k.Error(err)
		}
	})
	eventually(k.T, usual, "the private registry listens", func() error {
		_, err := k.host.Exec(k.Context(), "sh", "-c", "grep -qi ':176E ' /proc/self/net/tcp") // 5998
		return err
	})
}

// login makes or changes a pull secret.
func (k *tester) login(name, password string) {
	k.Helper()
	secret := &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: fmt.Appendf(nil,
			`{"auths":{"http://%s/v2/":{"username":%q,"password":%q}}}`, privateRegistry, privateUser, password)},
	}
	secrets := k.client().CoreV1().Secrets(k.namespace)
	_, err := secrets.Create(k.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		_, err = secrets.Update(k.Context(), secret, metav1.UpdateOptions{})
	}
	must(k.T, err)
}

// TestPullSecrets: a registry that wants a login gets that of the pod, and what was pulled with it is for nobody else. It has a
// host of its own: the record of a private pull is of the image's content, which pods of other tests use by another name.
func TestPullSecrets(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).ownSite(t, "private"))
	k.privateRegistry()
	k.login("right", privatePassword)
	k.login("wrong", "high tide")
	private := func(secrets ...string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Spec.Containers[0].Image = privateRegistry + "/" + images.Busybox
			for _, s := range secrets {
				p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
			}
		}
	}
	waits := func(p *v1.Pod) error {
		for _, st := range p.Status.ContainerStatuses {
			if w := st.State.Waiting; w != nil && w.Reason == "ImagePullBackOff" &&
				(strings.Contains(w.Message, "401") || strings.Contains(w.Message, "authorization failed")) {
				return nil
			}
		}
		return fmt.Errorf("statuses %+v", p.Status.ContainerStatuses)
	}

	rotated := k.create(k.pod("rotated", `sleep 1d`, private("wrong")))
	k.await(rotated, usual, "is refused", waits)
	both := k.create(k.pod("both", `sleep 1d`, private("missing", "wrong", "right")))
	k.awaitPodReady(both)
	k.awaitEvent(both, "FailedToRetrieveImagePullSecret", "Unable to retrieve some image pull secrets (missing); attempting to pull the image may not succeed.")

	k.await(k.create(k.pod("nobody", `sleep 1d`, private())), usual, "is refused although the image is there", waits)
	again := k.create(k.pod("again", `sleep 1d`, private("right")))
	k.awaitPodReady(again)
	k.awaitEvent(again, "Pulled", "already present on machine and can be accessed by the pod")

	k.login("wrong", privatePassword)
	k.awaitPodReady(rotated)

	for _, file := range []string{k.nodeProc.LogFile(), k.hostProc.LogFile()} {
		log, err := os.ReadFile(file)
		must(t, err)
		if strings.Contains(string(log), privatePassword) {
			t.Errorf("%s has the password", file)
		}
	}
}
