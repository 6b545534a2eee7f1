// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/test/images"
)

// tlsRegistry is a registry with TLS and basic authentication beside the control plane, as hosts reach it over the network.
type tlsRegistry struct {
	*tester
	address   string
	cert, key string
	content   *images.Registry

	mu sync.Mutex
	// logins are the passwords it takes, by user.
	logins map[string]string
	// refused are when it refused each user.
	refused map[string][]time.Time
	// held delays the content of every blob until it is closed, unless it is nil.
	held chan struct{}

	server *http.Server
	served sync.WaitGroup
}

// tlsRegistry makes a registry and has the containerd of the test's host trust its certificate.
func (k *tester) tlsRegistry() *tlsRegistry {
	k.Helper()
	archive, err := k.env.cluster.ImageArchive(k.Context())
	must(k.T, err)
	content, err := images.OpenRegistry(archive)
	must(k.T, err)
	port, err := k.env.cluster.FreePort()
	must(k.T, err)
	r := &tlsRegistry{tester: k, content: content, logins: map[string]string{}, refused: map[string][]time.Time{}}
	r.address = net.JoinHostPort(k.env.cluster.Address().String(), strconv.Itoa(port))
	r.cert, r.key, err = k.env.cluster.ServingCert("registry-"+k.namespace, k.env.cluster.Address())
	must(k.T, err)
	dir := filepath.Join(k.host.Dir(), "registries", r.address)
	must(k.T, os.MkdirAll(dir, 0o755))
	must(k.T, os.WriteFile(filepath.Join(dir, "hosts.toml"), fmt.Appendf(nil, "server = %q\nca = %q\n", "https://"+r.address, k.env.cluster.CAFile()), 0o644))
	k.Cleanup(func() {
		r.down()
		must(k.T, content.Close())
	})
	return r
}

// up has the registry listen.
func (r *tlsRegistry) up() {
	r.Helper()
	var l net.Listener
	eventually(r.T, usual, "the registry listens at "+r.address, func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(r.Context(), "tcp", r.address)
		return err
	})
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: usual}
	r.served.Go(func() { _ = r.server.ServeTLS(l, r.cert, r.key) })
}

// down ends it.
func (r *tlsRegistry) down() {
	if r.server != nil {
		_ = r.server.Close()
	}
	r.served.Wait()
}

func (r *tlsRegistry) allow(user, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logins[user] = password
}

// hold delays the content of blobs until the function that it returns is called.
func (r *tlsRegistry) hold() (release func()) {
	held := make(chan struct{})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = held
	return sync.OnceFunc(func() { close(held) })
}

// refusals are the times at which the user was refused.
func (r *tlsRegistry) refusals(user string) []time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused[user])
}

func (r *tlsRegistry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	user, password, _ := request.BasicAuth()
	r.mu.Lock()
	known, held := user != "" && r.logins[user] == password, r.held
	if !known && user != "" {
		r.refused[user] = append(r.refused[user], time.Now())
	}
	r.mu.Unlock()
	if !known {
		w.Header().Set("WWW-Authenticate", `Basic realm="tombolo"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if held != nil && strings.Contains(request.URL.Path, "/blobs/") {
		w = heldWriter{w, held, request.Context()}
	}
	r.content.ServeHTTP(w, request)
}

// heldWriter sends the headers at once, which a runtime does not wait for long, and the content when it is released.
type heldWriter struct {
	http.ResponseWriter
	held <-chan struct{}
	ctx  context.Context
}

func (w heldWriter) Write(p []byte) (int, error) {
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		return 0, err
	}
	select {
	case <-w.held:
		return w.ResponseWriter.Write(p)
	case <-w.ctx.Done():
		return 0, w.ctx.Err()
	}
}

// secret makes or changes a pull secret with a login for each address.
func (r *tlsRegistry) secret(name, user, password string, addresses ...string) {
	r.Helper()
	var auths []string
	for _, a := range addresses {
		auths = append(auths, fmt.Sprintf(`%q:{"username":%q,"password":%q}`, a, user, password))
	}
	secret := &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Type: v1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{v1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{%s}}`, strings.Join(auths, ","))},
	}
	secrets := r.client().CoreV1().Secrets(r.namespace)
	_, err := secrets.Create(r.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		_, err = secrets.Update(r.Context(), secret, metav1.UpdateOptions{})
	}
	must(r.T, err)
}

// pulling is a pod with an image of the registry.
func (r *tlsRegistry) pulling(name, image string, secrets ...string) *v1.Pod {
	r.Helper()
	return r.create(r.pod(name, `sleep 1d`, func(p *v1.Pod) {
		p.Spec.Containers[0].Image = r.address + "/" + image
		for _, s := range secrets {
			p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, v1.LocalObjectReference{Name: s})
		}
	}))
}

// awaitWaiting waits until the pod's container waits for a reason, with a message that has the text.
func (k *tester) awaitWaiting(pod *v1.Pod, reason, text string) {
	k.Helper()
	k.await(pod, usual, fmt.Sprintf("waits: %s %q", reason, text), func(p *v1.Pod) error {
		for _, st := range p.Status.ContainerStatuses {
			if w := st.State.Waiting; w != nil && w.Reason == reason && strings.Contains(w.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("statuses %+v", p.Status.ContainerStatuses)
	})
}

// TestRegistryWithTLSAndLogins: what a pod sees of a registry that wants TLS and a login, that changes its mind, and that goes
// away. It has a host of its own, whose records of pulls no other test sees.
func TestRegistryWithTLSAndLogins(t *testing.T) {
	t.Parallel()
	k := on(t, require(t).ownSite(t, "registry"))
	r := k.tlsRegistry()
	const tide, ebb = "spring tide", "ebb tide"
	image := r.address + "/" + images.Busybox
	r.secret("right", "ferry", tide, r.address)
	r.secret("wrong", "raft", ebb, r.address)
	r.secret("never", "wreck", ebb, r.address)
	r.secret("elsewhere", "ferry", ebb, "registry.example.com", "*.example.com")
	r.allow("ferry", tide)

	away := r.pulling("away", images.Busybox, "right") // nothing listens yet
	k.awaitEvent(away, "Failed", "connection refused")
	k.awaitWaiting(away, "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: ", image))
	r.up()
	k.awaitPodReady(away)
	k.awaitEvent(away, "Pulling", fmt.Sprintf("Pulling image %q", image))
	k.awaitEvent(away, "Pulled", fmt.Sprintf("Successfully pulled image %q in ", image))
	k.awaitEvent(away, "Pulled", " including waiting). Image size: ")

	r.pulling("never", images.Busybox, "never")
	wrong := r.pulling("wrong", images.Busybox, "wrong", "elsewhere")
	for reason, text := range map[string]string{
		"Failed": fmt.Sprintf("Failed to pull image %q: ", image), "BackOff": fmt.Sprintf("Back-off pulling image %q", image),
	} {
		k.awaitEvent(wrong, reason, text)
	}
	k.awaitEvent(wrong, "Failed", "Error: ErrImagePull")
	k.awaitEvent(wrong, "Failed", "Error: ImagePullBackOff")
	k.awaitPodReady(r.pulling("both", images.Busybox, "wrong", "right"))
	k.awaitPodReady(k.create(k.pod("loaded", `sleep 1d`, func(p *v1.Pod) { // the same content, by the name under which it was loaded
		p.Spec.Containers[0].ImagePullPolicy = v1.PullNever
	})))

	r.secret("wrong", "ferry", tide, r.address)
	k.awaitPodReady(wrong)

	t.Run("a pull that takes minutes", func(t *testing.T) {
		k := k.part(t)
		_, err := k.host.Crictl(k.Context(), "rmi", images.Agnhost) // what is there is not pulled again
		must(t, err)
		release := r.hold()
		defer release()
		slow := r.pulling("slow", images.Agnhost, "right")
		k.awaitEvent(slow, "Pulling", fmt.Sprintf("Still pulling image %q after 1m", r.address+"/"+images.Agnhost))
		release()
		k.awaitEvent(slow, "Pulled", "Successfully pulled image")
	})
	// A pull makes some requests, and the next one comes after ten seconds, then twenty.
	const most = 5
	tries := r.refusals("wreck")
	if len(tries) < most {
		t.Errorf("the registry was asked at %v only", tries)
	}
	for i := most; i < len(tries); i++ {
		if pause := tries[i].Sub(tries[i-most]); pause < 10*time.Second {
			t.Errorf("the registry was asked %d times within %v: %v", most+1, pause, tries)
		}
	}
	for _, file := range []string{k.nodeProc.LogFile(), k.hostProc.LogFile()} {
		log, err := os.ReadFile(file)
		must(t, err)
		if strings.Contains(string(log), tide) || strings.Contains(string(log), ebb) {
			t.Errorf("%s has a password", file)
		}
	}
}
