// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/lifecycle/image/keyring"
	"github.com/tombolo-dev/tombolo/lifecycle/podref"
)

// Secrets reads the secrets of the cluster.
type Secrets interface {
	// Secret returns the secret of that name in the pod's namespace, which is shared and not to be changed. It answers for as
	// long as the pod lives, from memory after the first time.
	Secret(ctx context.Context, pod *v1.Pod, name string) (*v1.Secret, error)
}

// credentials returns those of the pod for the image, in the order in which they are to be tried. A secret that cannot be
// read is told of, and the others count. They are looked up once for a request.
func (m *Manager) credentials(ctx context.Context, r *request) ([]keyring.Credential, error) {
	if r.asked {
		return r.credentials, nil
	}
	secrets, failed, err := m.pullSecrets(ctx, r.pod)
	if err != nil {
		return nil, err
	}
	ring, unreadable := keyring.New(secrets)
	if failed = append(failed, unreadable...); len(failed) > 0 {
		m.recorder.Event(podref.Pod(r.pod), v1.EventTypeWarning, eventNoSecret, fmt.Sprintf(
			"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(failed, ", ")))
	}
	r.credentials, r.asked = ring.Lookup(repositoryOf(r.image)), true
	return r.credentials, nil
}

// pullSecrets are the pod's pull secrets, to which the API server has added those of its service account. An error is that
// of ctx.
func (m *Manager) pullSecrets(ctx context.Context, pod *v1.Pod) (secrets []*v1.Secret, failed []string, err error) {
	for _, ref := range pod.Spec.ImagePullSecrets {
		if ref.Name == "" || slices.ContainsFunc(secrets, func(s *v1.Secret) bool { return s.Name == ref.Name }) {
			continue
		}
		secret, err := m.secret(ctx, pod, ref.Name)
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, nil, ctx.Err()
		case err != nil:
			m.log.Warn("A pull secret cannot be read", "pod", pod.Namespace+"/"+pod.Name, "uid", pod.UID, "secret", ref.Name, "error", err)
			failed = append(failed, ref.Name)
		default:
			secrets = append(secrets, secret)
		}
	}
	return secrets, failed, nil
}

func (m *Manager) secret(ctx context.Context, pod *v1.Pod, name string) (*v1.Secret, error) {
	if m.secrets == nil {
		return nil, errNoSecrets
	}
	return m.secrets.Secret(ctx, pod, name)
}

// repositoryOf is the full name of an image without tag and digest. The name was checked before.
func repositoryOf(image string) string {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return image
	}
	return named.Name()
}

// normalized is the name of an image as the runtime has it: with a registry, and without the tag if it has a digest as well.
func normalized(image string) string {
	named, err := reference.ParseDockerRef(image)
	if err != nil {
		return image
	}
	return named.String()
}
