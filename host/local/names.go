// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tombolo-dev/tombolo/host"
)

var (
	// uidPattern takes the UUIDs of the API server and the hashes of static pods.
	uidPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
	// containerIDPattern takes the ids that runtimes make.
	containerIDPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,127}$`)
)

func checkUID(uid types.UID) error {
	if !uidPattern.MatchString(string(uid)) {
		return fmt.Errorf("pod UID %q is not one: %w", uid, errdefs.ErrInvalidArgument)
	}
	return nil
}

func checkContainerID(id string) error {
	if !containerIDPattern.MatchString(id) {
		return fmt.Errorf("container id %q is not one: %w", id, errdefs.ErrInvalidArgument)
	}
	return nil
}

// checkLabel checks a name that the API confines to a DNS label: namespaces, containers, volumes.
func checkLabel(what, name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("%s name %q: %s: %w", what, name, problems[0], errdefs.ErrInvalidArgument)
	}
	return nil
}

// checkContainerName checks the name of a container in the runtime, which may have a suffix after a dot.
func checkContainerName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("container name %q: %s: %w", name, problems[0], errdefs.ErrInvalidArgument)
	}
	return nil
}

func checkPod(pod host.Pod) error {
	if err := checkUID(pod.UID); err != nil {
		return err
	}
	if err := checkLabel("namespace", pod.Namespace); err != nil {
		return err
	}
	if problems := validation.IsDNS1123Subdomain(pod.Name); len(problems) > 0 {
		return fmt.Errorf("pod name %q: %s: %w", pod.Name, problems[0], errdefs.ErrInvalidArgument)
	}
	return nil
}

// below returns the part of path below dir. It looks at names only: symbolic links are kept in by os.Root.
func below(dir, path string) (string, bool) {
	if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
		return "", false
	}
	rel, err := filepath.Rel(dir, filepath.Clean(path))
	if err != nil || rel == "." || !filepath.IsLocal(rel) {
		return "", false
	}
	return rel, true
}
