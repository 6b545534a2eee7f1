// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// What a machine has. More processors than that would only wait for those of the machine it runs on.
const (
	processors   = 2
	memoryMiB    = 2048
	emulator     = "qemu-system-x86_64"
	kernelOutput = "ttyS0"
)

// hardware says what a machine is made of.
type hardware struct {
	name    string
	image   image
	payload string // the disk with the files of this run
	tap     string
	address netip.Prefix
	gateway netip.Addr
}

// command is the command line of the emulator. The console is its standard output. A kernel that panics ends it.
func (h hardware) command() []string {
	return []string{
		// Others have the machine first.
		"nice", "-n", "10", emulator,
		"-name", h.name, "-machine", "q35", "-accel", "tcg,thread=multi",
		// Five levels of page tables cost a software processor a fifth more of every look-up.
		"-cpu", "max,la57=off", "-smp", strconv.Itoa(processors), "-m", strconv.Itoa(memoryMiB),
		"-no-user-config", "-nodefaults", "-no-reboot", "-display", "none", "-monitor", "none", "-serial", "stdio",
		"-kernel", h.image.kernel(), "-initrd", h.image.initrd(), "-append", h.kernelArguments(),
		"-drive", "if=virtio,format=raw,snapshot=on,file=" + h.image.disk(),
		"-drive", "if=virtio,format=raw,readonly=on,file=" + h.payload,
		"-netdev", "tap,id=net,script=no,downscript=no,ifname=" + h.tap,
		"-device", "virtio-net-pci,netdev=net,romfile=,mac=" + h.mac(),
		"-device", "virtio-rng-pci",
	}
}

// kernelArguments are read by the kernel, by systemd, and, those that begin with vm., by the first program.
func (h hardware) kernelArguments() string {
	return strings.Join([]string{
		"console=" + kernelOutput, "panic=-1", "mitigations=off", "nokaslr",
		"systemd.unified_cgroup_hierarchy=1", "systemd.hostname=" + h.name, "systemd.show_status=1",
		"vm.address=" + h.address.String(), "vm.gateway=" + h.gateway.String(),
	}, " ")
}

// mac is an address that no other machine on the network has.
func (h hardware) mac() string {
	a := h.address.Addr().As4()
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", a[1], a[2], a[3])
}
