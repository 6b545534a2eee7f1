// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
)

// Two scripts stand between this side and a host. They are shell because all they do is call util-linux, and because the
// second one is also for people. Both end in exec, so the process started is the program itself.

// bootScript makes the namespaces and then sleeps in them. It begins outside, as a member of the host's cgroup, so that the
// new cgroup namespace has that group as its root.
const bootScript = `#!/bin/sh
set -e
if [ "$1" != inside ]; then
	{{- range .Hierarchies}}
	echo 0 > {{.Mount}}/{{$.Cgroup}}/cgroup.procs
	{{- end}}
	exec unshare --net --uts --cgroup --mount --propagation private "$0" inside
fi
hostname {{.Name}}

# Its own /run, where what is needed below waits.
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/testbed
mount --bind {{.StateDir}} /run/testbed

# cgroups: what the host sees as the root is its own group. Its own processes are in a child, so that the root may delegate.
# /sys is new, to be that of its own network namespace, and to have no second mount of a cgroup hierarchy.
{{- range .Hierarchies}}
mkdir -p /run/cgroup{{.Mount}}
mount --bind {{.Mount}}/{{$.Cgroup}} /run/cgroup{{.Mount}}
{{- end}}
umount -R /sys
mount -t sysfs sysfs /sys
{{- if .Several}}
mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
{{- end}}
{{- range .Hierarchies}}
mkdir -p {{.Mount}}
mount --move /run/cgroup{{.Mount}} {{.Mount}}
echo 0 > {{.Mount}}/{{$.System}}/cgroup.procs
{{- end}}
{{- if not .Several}}{{with index .Hierarchies 0}}
for c in $(cat {{.Mount}}/cgroup.controllers); do echo "+$c" > {{.Mount}}/cgroup.subtree_control; done
{{- end}}{{end}}
rm -r /run/cgroup

# Its own /etc and /var on top of this machine's; the state folder may be below one of them.
for d in etc var; do
	mkdir -p {{.Changes}}/$d {{.Changes}}/.work/$d
	mount -t overlay -o lowerdir=/$d,upperdir={{.Changes}}/$d,workdir={{.Changes}}/.work/$d overlay /$d
done
mkdir -p {{.StateDir}}
mount --bind /run/testbed {{.StateDir}}
umount /run/testbed
rmdir /run/testbed
echo {{.MachineID}} > /etc/machine-id
echo {{.Name}} > /etc/hostname
printf 'runtime-endpoint: unix://%s\nimage-endpoint: unix://%s\ntimeout: 60\n' {{.Socket}} {{.Socket}} > /etc/crictl.yaml

# As on a booted machine: what is mounted here is seen by containers that ask for it.
mount --make-rshared /
echo $$ > {{.PIDFile}}
exec sleep infinity
`

// enterScript runs a command on a host.
const enterScript = `#!/bin/sh
# Runs a command on host {{.Name}} of testbed {{.ID}}: {{.Enter}} CMD ARGS...
set -e
{{- range .Hierarchies}}
echo 0 > {{.Mount}}/{{$.Cgroup}}/{{$.System}}/cgroup.procs
{{- end}}
export {{.Mark}}={{.ID}} PATH={{.Bin}}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export CONTAINERD_ADDRESS={{.Socket}}
exec nsenter --target "$(cat {{.PIDFile}})" --net --uts --cgroup --mount -- "$@"
`

type scriptValues struct {
	Name, ID, Mark, Bin                                  string
	StateDir, Changes, PIDFile, Enter, Socket, MachineID string
	Cgroup, System                                       string // relative to a hierarchy's mount, to Cgroup
	Hierarchies                                          []hierarchy
	Several                                              bool // cgroup v1, whose mounts need a folder above them
}

func (h *Host) scriptValues() (scriptValues, error) {
	all, err := hierarchies()
	if err != nil {
		return scriptValues{}, err
	}
	v := scriptValues{
		Name: h.name, ID: h.cluster.id, Mark: markVariable, Bin: h.cluster.Bin(),
		StateDir: h.cluster.StateDir(), Changes: h.Changes(), PIDFile: filepath.Join(h.Dir(), "pid"), Enter: h.EnterScript(),
		Socket: h.ContainerdSocket(), MachineID: machineID(h.cluster.id, h.index),
		Cgroup: filepath.Join(runCgroup(h.cluster.id), h.name), System: systemCgroup,
		Hierarchies: all, Several: len(all) > 1,
	}
	return v, nil
}

// machineID is what systemd would put into /etc/machine-id: 32 hexadecimal digits that no other host has.
func machineID(id string, index uint32) string { return fmt.Sprintf("%s%0*x", id, 32-len(id), index) }

func writeScript(name, text string, values scriptValues) error {
	parsed, err := template.New(filepath.Base(name)).Parse(text)
	if err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	var b strings.Builder
	if err := parsed.Execute(&b, values); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	// A process that is forked while the script is open for writing keeps it open until its own exec, and until then
	// the kernel refuses to run the script ("text file busy"). So nothing is forked meanwhile.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, []byte(b.String()), 0o755); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}

// startNamespaces starts the process that holds the host's namespaces and returns its id.
func (h *Host) startNamespaces(ctx context.Context) (int, error) {
	values, err := h.scriptValues()
	if err != nil {
		return 0, err
	}
	boot := filepath.Join(h.Dir(), "boot")
	if err := writeScript(boot, bootScript, values); err != nil {
		return 0, err
	}
	if err := writeScript(h.EnterScript(), enterScript, values); err != nil {
		return 0, err
	}
	p, err := h.Run("namespaces", h.cluster.Command(context.WithoutCancel(ctx), boot))
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	ended := errors.New("ended")
	err = poll(ctx, func() bool { return exists(values.PIDFile) || !p.record.alive() })
	if err == nil && !p.record.alive() {
		err = ended
	}
	if err != nil {
		return 0, p.failure(fmt.Sprintf("did not make the host's namespaces (%v)", err))
	}
	return p.PID(), h.cluster.store.update(func(s *state) {
		for i := range s.Hosts {
			if s.Hosts[i].Name == h.name {
				s.Hosts[i].PID = p.PID()
			}
		}
	})
}
