// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"path/filepath"
	"strings"
)

// Names of the images that tests refer to, as Kubernetes v1.37's own tests do.
const (
	Pause   = "registry.k8s.io/pause:3.10.2"
	Busybox = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2"
	Agnhost = "registry.k8s.io/e2e-test-images/agnhost:2.66.1"
)

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Programs are the programs on this machine that images are made of.
type Programs struct {
	// Parts is the folder with the programs pause and agnhost.
	Parts string
	// Busybox is a static busybox, and Applets the absolute paths of the links to make to it.
	Busybox string
	Applets []string
	// Bash is a static bash, and Userland the program of the sub-package of that name. Only the conformance images have them.
	Bash     string
	Userland string
}

// Standard returns the images every host of the testbed has.
func Standard(p Programs) []Image {
	base := userland(p)
	return []Image{pauseImage(p), busyboxImage(base), agnhostImage(p, base)}
}

func pauseImage(p Programs) Image {
	return Image{
		Names:    []string{Pause},
		Layers:   []Layer{{{Path: "/pause", Source: filepath.Join(p.Parts, "pause")}}},
		Settings: Settings{User: "65535:65535", Env: []string{defaultPath}, Entrypoint: []string{"/pause"}, WorkingDir: "/"},
	}
}

func busyboxImage(base Layer) Image {
	return Image{
		// The short names are for manifests typed by hand; a tag other than latest keeps the pull policy at IfNotPresent.
		Names:    []string{Busybox, "docker.io/library/busybox:1.37", "docker.io/library/busybox:latest"},
		Layers:   []Layer{base},
		Settings: Settings{Env: []string{defaultPath}, Cmd: []string{"sh"}, WorkingDir: "/"},
	}
}

func agnhostImage(p Programs, base Layer) Image {
	return Image{
		Names: []string{Agnhost},
		Layers: []Layer{base, {
			{Path: "/agnhost", Source: filepath.Join(p.Parts, "agnhost")},
			{Path: "/agnhost-2", Link: "/agnhost"},
			{Path: "/uploads", Folder: true},
			{Path: "/etc/passwd", Mode: 0o644, Data: userList + "user-defined-in-image:x:1000:1000::/home:/bin/sh\n"},
			{Path: "/etc/group", Mode: 0o644, Data: groupList + "user-defined-in-image:x:1000:\n" +
				"group-defined-in-image:x:50000:user-defined-in-image\n"},
		}},
		Settings: Settings{
			Env: []string{defaultPath}, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, WorkingDir: "/",
			ExposedPorts: map[string]struct{}{"80/tcp": {}, "8080/tcp": {}, "8081/tcp": {}, "9376/tcp": {}, "5000/tcp": {}},
		},
	}
}

const (
	userList  = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
	groupList = "root:x:0:\nnobody:x:65534:\n"
)

// userland is busybox with its applets and the few files programs expect; the shell is bash if there is one. Every applet
// is in /bin, as in the image that busybox's own authors make, and also where Debian has it.
func userland(p Programs) Layer {
	l := Layer{
		{Path: "/bin/busybox", Source: p.Busybox},
		{Path: "/etc/group", Mode: 0o644, Data: groupList},
		{Path: "/etc/passwd", Mode: 0o644, Data: userList},
		{Path: "/home", Folder: true},
		{Path: "/root", Folder: true, Mode: 0o700},
		{Path: "/tmp", Folder: true, Mode: 0o1777},
		{Path: "/var", Folder: true},
	}
	own := map[string]bool{"/bin/busybox": true}
	if p.Bash != "" {
		l = append(l, File{Path: "/bin/bash", Source: p.Bash}, File{Path: "/bin/sh", Link: "/bin/bash"})
		own["/bin/bash"], own["/bin/sh"] = true, true
	}
	for _, applet := range p.Applets {
		for _, path := range []string{"/" + strings.TrimPrefix(applet, "/"), "/bin/" + filepath.Base(applet)} {
			if !own[path] {
				own[path] = true
				l = append(l, File{Path: path, Link: "/bin/busybox"})
			}
		}
	}
	return l
}
