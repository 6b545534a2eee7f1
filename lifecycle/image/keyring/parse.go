// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package keyring

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// login is an entry of a docker configuration.
type login struct {
	username string
	password string
}

// errFormat is all that is said of a configuration that cannot be read: a more exact error could quote it.
var errFormat = errors.New("its content is not a docker configuration")

// parse returns the logins in a secret by registry. A secret of another type, or without content, has none.
func parse(secret *v1.Secret) (map[string]login, error) {
	switch secret.Type {
	case v1.SecretTypeDockerConfigJson:
		return parseDockerConfigJSON(secret.Data[v1.DockerConfigJsonKey])
	case v1.SecretTypeDockercfg:
		return parseDockercfg(secret.Data[v1.DockerConfigKey])
	default:
		return nil, nil
	}
}

func parseDockerConfigJSON(content []byte) (map[string]login, error) {
	if len(content) == 0 {
		return nil, nil
	}
	var config struct {
		Auths map[string]login `json:"auths"`
	}
	if json.Unmarshal(content, &config) != nil {
		return nil, errFormat
	}
	return config.Auths, nil
}

// parseDockercfg reads the older form, which is the part "auths" of the newer one.
func parseDockercfg(content []byte) (map[string]login, error) {
	if len(content) == 0 {
		return nil, nil
	}
	var auths map[string]login
	if json.Unmarshal(content, &auths) != nil {
		return nil, errFormat
	}
	return auths, nil
}

// UnmarshalJSON reads an entry. What is in its field auth wins over user name and password.
func (l *login) UnmarshalJSON(content []byte) error {
	var entry struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Auth     string `json:"auth"`
	}
	if err := json.Unmarshal(content, &entry); err != nil {
		return err
	}
	l.username, l.password = entry.Username, entry.Password
	if entry.Auth == "" {
		return nil
	}
	var err error
	l.username, l.password, err = decodeAuth(entry.Auth)
	return err
}

// decodeAuth takes base64(<user name>:<password>) apart, with or without padding.
func decodeAuth(auth string) (username, password string, err error) {
	encoding := base64.RawStdEncoding
	if strings.HasSuffix(strings.TrimSpace(auth), "=") {
		encoding = base64.StdEncoding
	}
	plain, err := encoding.DecodeString(auth)
	if err != nil {
		return "", "", fmt.Errorf("decoding auth: %w", err)
	}
	username, password, ok := strings.Cut(string(plain), ":")
	if !ok {
		return "", "", errors.New("auth is not base64(username:password)")
	}
	return username, password, nil
}
