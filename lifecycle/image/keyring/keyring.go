// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package keyring

import (
	"maps"
	"net"
	"net/url"
	"path"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// defaultRegistry is where images without a registry come from, by the name that credentials for it have.
const defaultRegistry = "index.docker.io"

// Keyring is the credentials of one pod.
type Keyring struct {
	// byRegistry has the credentials for a registry, or a part of one, in the order of the secrets. Its key is host[:port]
	// with an optional path; the host may have wildcards.
	byRegistry map[string][]Credential
	// registries are the keys, a more exact one before the one it is a part of.
	registries []string
}

// New makes a keyring of secrets. unreadable are the names of those that hold no docker configuration; the others count all
// the same.
func New(secrets []*v1.Secret) (ring *Keyring, unreadable []string) {
	ring = &Keyring{byRegistry: map[string][]Credential{}}
	for _, secret := range secrets {
		logins, err := parse(secret)
		if err != nil {
			unreadable = append(unreadable, secret.Name)
			continue
		}
		source := Source{Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID}
		for _, registry := range slices.Sorted(maps.Keys(logins)) {
			if key, ok := normalize(registry); ok {
				login := logins[registry]
				ring.byRegistry[key] = append(ring.byRegistry[key], Credential{
					Username: login.username, Password: login.password, Source: source,
				})
			}
		}
	}
	ring.registries = slices.Sorted(maps.Keys(ring.byRegistry))
	slices.Reverse(ring.registries)
	return ring, unreadable
}

// Lookup returns the credentials for an image, given by its full name without tag and digest, in the order in which they
// are to be tried. There are several if secrets are rotated.
func (k *Keyring) Lookup(repository string) []Credential {
	var out []Credential
	for _, registry := range k.registries {
		if matches(registry, repository) {
			out = append(out, k.byRegistry[registry]...)
		}
	}
	if len(out) == 0 && inDefaultRegistry(repository) {
		return slices.Clone(k.byRegistry[defaultRegistry])
	}
	return out
}

// normalize brings the name of a registry in a configuration into the form of a key: without scheme and without the
// version of the protocol that docker writes behind it.
func normalize(registry string) (key string, ok bool) {
	if !strings.HasPrefix(registry, "https://") && !strings.HasPrefix(registry, "http://") {
		registry = "https://" + registry
	}
	u, err := url.Parse(registry)
	if err != nil {
		return "", false
	}
	p := u.Path
	for _, version := range []string{"/v1", "/v2"} {
		if rest, found := strings.CutPrefix(p, version); found && strings.HasPrefix(rest, "/") {
			p = rest
			break
		}
	}
	if p == "/" {
		p = ""
	}
	return u.Host + p, true
}

// matches compares as the kubelet: the ports are equal, each part of the host fits the wildcards of its counterpart, and the
// path of the key begins that of the image.
func matches(key, repository string) bool {
	want, errWant := url.Parse("https://" + key)
	is, errIs := url.Parse("https://" + repository)
	if errWant != nil || errIs != nil {
		return false
	}
	wantParts, wantPort := splitHost(want.Host)
	isParts, isPort := splitHost(is.Host)
	if wantPort != isPort || len(wantParts) != len(isParts) || !strings.HasPrefix(is.Path, want.Path) {
		return false
	}
	for i, pattern := range wantParts {
		if fits, err := path.Match(pattern, isParts[i]); err != nil || !fits {
			return false
		}
	}
	return true
}

func splitHost(hostport string) (parts []string, port string) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		host, port = hostport, ""
	}
	return strings.Split(host, "."), port
}

// inDefaultRegistry says whether an image's name means docker's registry: the first part of the name of any other is a host,
// which has a dot or a port.
func inDefaultRegistry(repository string) bool {
	first, _, hasMore := strings.Cut(repository, "/")
	switch {
	case first == "":
		return false
	case !hasMore, first == "docker.io", first == defaultRegistry:
		return true
	default:
		return !strings.ContainsAny(first, ".:")
	}
}
