// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package keyring

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func configJSON(name, content string) *v1.Secret {
	return &v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Type:       v1.SecretTypeDockerConfigJson, Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(content)},
	}
}

func dockercfg(name, content string) *v1.Secret {
	s := configJSON(name, "")
	s.Type, s.Data = v1.SecretTypeDockercfg, map[string][]byte{v1.DockerConfigKey: []byte(content)}
	return s
}

// users are the user names of the credentials for an image, in order.
func users(ring *Keyring, image string) string {
	var out []string
	for _, c := range ring.Lookup(image) {
		out = append(out, c.Username)
	}
	return strings.Join(out, " ")
}

func TestLookupComparesAsTheKubelet(t *testing.T) {
	for _, tc := range []struct{ registry, image, want string }{
		{"registry.example.com", "registry.example.com/a/b", "yes"},
		{"https://registry.example.com", "registry.example.com/a", "yes"},
		{"http://registry.example.com/", "registry.example.com/a", "yes"},
		{"https://registry.example.com/v1/", "registry.example.com/a", "yes"},
		{"https://registry.example.com/v2/", "registry.example.com/a", "yes"},
		{"https://registry.example.com/v2/team", "registry.example.com/team/a", "yes"},
		{"registry.example.com/v2", "registry.example.com/team/a", ""}, // a path, not a version
		{"registry.example.com", "other.example.com/a", ""},
		{"registry.example.com", "registry.example.com:5000/a", ""},
		{"registry.example.com:5000", "registry.example.com:5000/a", "yes"},
		{"registry.example.com:5000", "registry.example.com/a", ""},
		{"registry.example.com/team", "registry.example.com/team/a", "yes"},
		{"registry.example.com/team", "registry.example.com/others/a", ""},
		{"*.example.com", "registry.example.com/a", "yes"},
		{"*.example.com", "example.com/a", ""},
		{"*.example.com", "eu.registry.example.com/a", ""},
		{"*.*.example.com", "eu.registry.example.com/a", "yes"},
		{"reg*.example.com:5000/team", "registry.example.com:5000/team/a", "yes"},
		{"*", "localhost/a", "yes"},
		{"[.example.com", "[.example.com/a", ""},
		{"docker.io", "docker.io/library/busybox", "yes"},
		{"https://index.docker.io/v1/", "docker.io/library/busybox", "yes"},
		{"index.docker.io", "registry.example.com/busybox", ""},
		{"%zz", "%zz/a", ""},
		{"", "registry.example.com/a", ""},
	} {
		ring, unreadable := New([]*v1.Secret{configJSON("s", fmt.Sprintf(`{"auths":{%q:{"username":"yes","password":"p"}}}`, tc.registry))})
		if got := users(ring, tc.image); got != tc.want || len(unreadable) > 0 {
			t.Errorf("%q for %s: %q, want %q (unreadable: %v)", tc.registry, tc.image, got, tc.want, unreadable)
		}
	}
}

func TestSeveralCredentialsAreTriedFromTheMostExactOneInTheOrderOfTheSecrets(t *testing.T) {
	ring, unreadable := New([]*v1.Secret{
		configJSON("old", `{"auths":{"r.example.com":{"username":"old"},"r.example.com/team":{"username":"team"}}}`),
		dockercfg("older", `{"r.example.com":{"username":"older"},"https://r.example.com/v1/":{"username":"again"}}`),
		configJSON("other", `{"auths":{"s.example.com":{"username":"other"}}}`),
	})
	if got, want := users(ring, "r.example.com/team/app"), "team old again older"; got != want || len(unreadable) > 0 {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := users(ring, "r.example.com/app"), "old again older"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := users(ring, "t.example.com/app"); got != "" {
		t.Errorf("got %q for a registry without credentials", got)
	}
	want := Source{Namespace: "ns", Name: "other", UID: "uid-other"}
	if got := ring.Lookup("s.example.com/app")[0].Source; got != want {
		t.Errorf("source %v, want %v", got, want)
	}
}

func TestEntriesOfADockerConfiguration(t *testing.T) {
	padded := base64.StdEncoding.EncodeToString([]byte("user:pa:ss"))
	for _, tc := range []struct {
		desc, entry        string
		username, password string
	}{
		{desc: "user name and password", entry: `{"username":"user","password":"pass","email":"u@example.com"}`, username: "user", password: "pass"},
		{desc: "auth", entry: `{"auth":"` + padded + `"}`, username: "user", password: "pa:ss"},
		{desc: "auth without padding", entry: `{"auth":"` + strings.TrimRight(padded, "=") + `"}`, username: "user", password: "pa:ss"},
		{desc: "auth wins", entry: `{"username":"x","password":"y","auth":"` + padded + `"}`, username: "user", password: "pa:ss"},
		{desc: "an empty auth does not", entry: `{"username":"x","password":"y","auth":""}`, username: "x", password: "y"},
		{desc: "an empty entry", entry: `{}`},
	} {
		for name, secret := range map[string]*v1.Secret{
			"dockerconfigjson": configJSON("s", `{"auths":{"r.example.com":`+tc.entry+`},"credsStore":"desktop"}`),
			"dockercfg":        dockercfg("s", `{"r.example.com":`+tc.entry+`}`),
		} {
			ring, unreadable := New([]*v1.Secret{secret})
			got := ring.Lookup("r.example.com/a")
			if len(got) != 1 || got[0].Username != tc.username || got[0].Password != tc.password || len(unreadable) > 0 {
				t.Errorf("%s in %s: %d credentials, %v", tc.desc, name, len(got), unreadable)
			}
		}
	}
}

func TestSecretsThatHoldNoConfiguration(t *testing.T) {
	opaque := configJSON("opaque", `{"auths":{"r.example.com":{"username":"u"}}}`)
	opaque.Type = v1.SecretTypeOpaque
	ring, unreadable := New([]*v1.Secret{
		configJSON("json", `{"auths":`), configJSON("type", `{"auths":[]}`), configJSON("base64", `{"auths":{"r.example.com":{"auth":"!"}}}`),
		configJSON("colon", `{"auths":{"r.example.com":{"auth":"`+base64.StdEncoding.EncodeToString([]byte("no"))+`"}}}`),
		dockercfg("cfg", `[]`), configJSON("empty", ""), dockercfg("nothing", "{}"), opaque,
		configJSON("good", `{"auths":{"r.example.com":{"username":"good"}}}`),
	})
	if diff := cmp.Diff([]string{"json", "type", "base64", "colon", "cfg"}, unreadable); diff != "" {
		t.Errorf("unreadable (-want +got):\n%s", diff)
	}
	if got := users(ring, "r.example.com/a"); got != "good" {
		t.Errorf("the others are not used: %q", got)
	}
}

func TestCredentialNeverPrintsItsPassword(t *testing.T) {
	c := Credential{Username: "someone", Password: "hunter2", Source: Source{Namespace: "ns", Name: "s"}}
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "credential", c, "all", []Credential{c})
	texts := []string{c.String(), fmt.Sprint(c), fmt.Sprintf("%v %+v %#v %s", c, c, c, []Credential{c}), logged.String()}
	for _, text := range texts {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "someone") || !strings.Contains(text, "ns/s") {
			t.Errorf("printed as %q", text)
		}
	}
}

func TestHashIsOfWhatTheRegistryIsTold(t *testing.T) {
	a := Credential{Username: "u", Password: "p", Source: Source{Name: "a"}}
	b := Credential{Username: "u", Password: "p", Source: Source{Name: "b"}}
	if a.Hash() != b.Hash() {
		t.Error("the same login from two secrets is not the same")
	}
	if a.Hash() == (Credential{Username: "up"}).Hash() || a.Hash() == (Credential{Username: "u", Password: "q"}).Hash() {
		t.Error("two logins are the same")
	}
}

func FuzzKeyring(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://index.docker.io/v1/":{"auth":"dTpw"},"*.example.com:5000/x":{"username":"u"}}}`), "docker.io/library/a")
	f.Add([]byte(`{"[::1]:80":{"auth":"dTpw="}}`), "[::1]:80/a")
	f.Add([]byte(`{"auths":{"":{"auth":null}}}`), "")
	f.Fuzz(func(t *testing.T, content []byte, image string) {
		s, cfg := configJSON("s", ""), dockercfg("c", "")
		s.Data[v1.DockerConfigJsonKey], cfg.Data[v1.DockerConfigKey] = content, content
		ring, unreadable := New([]*v1.Secret{s, cfg})
		for _, c := range ring.Lookup(image) {
			if c.Source.Namespace != "ns" {
				t.Errorf("a credential of %v", c.Source)
			}
			for _, name := range unreadable {
				if name == c.Source.Name {
					t.Errorf("a credential of secret %q, which cannot be read", name)
				}
			}
		}
	})
}
