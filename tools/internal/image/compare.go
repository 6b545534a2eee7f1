// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// Differences says in what two images are not the same for who runs them: files with their modes, owners and contents, and how
// a container of it starts. Layers, times and history do not count.
func Differences(a, b v1.Image) ([]string, error) {
	var files [2]map[string]string
	var configs [2]map[string]string
	for i, img := range []v1.Image{a, b} {
		var err error
		if files[i], err = listing(img); err != nil {
			return nil, err
		}
		if configs[i], err = starts(img); err != nil {
			return nil, err
		}
	}
	return append(differences(configs[0], configs[1]), differences(files[0], files[1])...), nil
}

// differences compares what has names.
func differences(a, b map[string]string) (out []string) {
	names := slices.Sorted(maps.Keys(a))
	for name := range b {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if a[name] != b[name] {
			out = append(out, fmt.Sprintf("%s: %q and %q", name, a[name], b[name]))
		}
	}
	return out
}

// starts says how a container of the image starts.
func starts(img v1.Image) (map[string]string, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c := file.Config
	out := map[string]string{
		"platform": file.OS + "/" + file.Architecture, "user": c.User, "working directory": strings.TrimSuffix(c.WorkingDir, "/"),
		"entry point": strings.Join(c.Entrypoint, " "), "command": strings.Join(c.Cmd, " "), "environment": strings.Join(c.Env, " "),
	}
	for name, value := range c.Labels {
		if name != "io.buildah.version" { // buildah's own mark
			out["label "+name] = value
		}
	}
	return out, nil
}

// listing says of each file what it is.
func listing(img v1.Image) (map[string]string, error) {
	content := mutate.Extract(img)
	defer content.Close()
	out := map[string]string{}
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		sum := sha256.New()
		if _, err := io.Copy(sum, r); err != nil {
			return nil, err
		}
		name := path.Clean("/" + h.Name)
		if name == "/" {
			continue // only some builders name it
		}
		out[name] = fmt.Sprintf("%c %o %d:%d %s %x", h.Typeflag, h.Mode&0o7777, h.Uid, h.Gid, h.Linkname, sum.Sum(nil))
	}
}

// RequireStatic returns an error if the program in the image needs anything else of it, or is for another architecture.
func RequireStatic(img v1.Image) error {
	config, err := img.ConfigFile()
	if err != nil {
		return err
	}
	content := mutate.Extract(img)
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		if err != nil {
			return fmt.Errorf("looking for %s: %w", Program, err)
		}
		if path.Clean("/"+h.Name) != Program {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return requireStatic(data, config.Architecture)
	}
}

func requireStatic(program []byte, arch string) error {
	file, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return err
	}
	if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; file.Machine != want {
		return fmt.Errorf("the program is for %v, the image for %s", file.Machine, arch)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			return fmt.Errorf("the program is not static: it has a segment %v", p.Type)
		}
	}
	return nil
}
