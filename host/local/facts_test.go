// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/tombolo-dev/tombolo/host"
)

const (
	testMeminfo = "MemTotal:       24617704 kB\nMemFree:  1 kB\nMemAvailable:   20000000 kB\nSwapTotal: 1024 kB\nHugePages_Total:       0\n"
	testRoute   = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n" +
		"wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n" +
		"eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n" +
		"eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
	testRoute6 = "00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n" +
		"00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003     eth0\n" +
		"fd000000000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001    wlan0\n"
)

// testSystem is a small machine.
func testSystem(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"etc/machine-id":                   "0123456789abcdef0123456789abcdef\n",
		"etc/os-release":                   "NAME=\"Debian\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
		"etc/resolv.conf":                  "nameserver 192.0.2.53\n",
		"etc/hosts":                        "127.0.0.1 localhost\n",
		"proc/meminfo":                     testMeminfo,
		"proc/loadavg":                     "0.20 0.18 0.12 1/812 11206\n",
		"proc/net/route":                   testRoute,
		"proc/net/ipv6_route":              testRoute6,
		"proc/sys/kernel/hostname":         "edge-1\n",
		"proc/sys/kernel/osrelease":        "6.18.0-1-amd64\n",
		"proc/sys/kernel/pid_max":          "4194304\n",
		"proc/sys/kernel/threads-max":      "100000\n",
		"proc/sys/kernel/random/boot_id":   "5c1f8d3e-0000-4000-8000-00000000b001\n",
		"sys/class/dmi/id/product_uuid":    "4c4c4544-0000-4000-8000-000000000dc1\n",
		"sys/devices/system/cpu/online":    "0-3,8\n",
		"sys/fs/cgroup/cgroup.controllers": "cpu memory pids\n",

		"proc/self/cgroup": "1:name=x:/y\n0::/system.slice/tombolo.service\n",
		"sys/fs/cgroup/system.slice/tombolo.service/memory.swap.max": "max\n",
		"sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages":      "16\n",
		"sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages":   "0\n",

		"sys/kernel/security/apparmor/features/x": "",
		"sys/module/apparmor/parameters/enabled":  "Y\n",
	} {
		put(t, filepath.Join(dir, path), text)
	}
	return dir
}

func TestFactsOfAMachine(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	h, rt := newTestHost(t, func(o *Options) {
		o.SystemRoot = testSystem(t)
		o.Clock = clocktesting.NewFakeClock(now)
		o.Interfaces = func() ([]Interface, error) {
			return []Interface{
				{Name: "lo", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}},
				{Name: "wlan0", Addresses: []netip.Addr{netip.MustParseAddr("192.168.1.7"), netip.MustParseAddr("fd00::7")}},
				{Name: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("fe80::5%eth0"), netip.MustParseAddr("2001:db8::5"), netip.MustParseAddr("10.0.0.5")}},
			}, nil
		}
	})
	rt.driver, rt.imagePath = runtimeapi.CgroupDriver_SYSTEMD, t.TempDir()
	got, err := h.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := &host.Facts{
		MachineID:       "0123456789abcdef0123456789abcdef",
		SystemUUID:      "4c4c4544-0000-4000-8000-000000000dc1",
		BootID:          "5c1f8d3e-0000-4000-8000-00000000b001",
		Hostname:        "edge-1",
		OS:              "linux",
		Architecture:    runtime.GOARCH,
		KernelVersion:   "6.18.0-1-amd64",
		OSImage:         "Debian GNU/Linux 12 (bookworm)",
		CPUs:            5,
		MemoryBytes:     24617704 << 10,
		MemoryAvailable: 20000000 << 10,
		SwapBytes:       1 << 20,
		PIDMax:          100000,
		PIDsRunning:     812,
		Filesystems:     []host.Filesystem{{Purpose: "nodefs", Path: h.rootDir}, {Purpose: "imagefs", Path: rt.imagePath}},
		HugePages:       []host.HugePages{{PageBytes: 2 << 20, Count: 16}, {PageBytes: 1 << 30}},
		SwapControl:     true,
		Clock:           now,
		AppArmor:        true,
		CgroupVersion:   2,
		CgroupDriver:    "systemd",
		Controllers:     []string{"cpu", "memory", "pids"},
		Addresses:       []string{"10.0.0.5", "2001:db8::5", "192.168.1.7", "fd00::7"},
		ResolvConf:      "nameserver 192.0.2.53\n",
		Hosts:           "127.0.0.1 localhost\n",
		RootDir:         h.rootDir,
		PodLogsDir:      h.logsDir,
		Version:         "v1",
	}
	sizes := cmpopts.IgnoreFields(host.Filesystem{}, "CapacityBytes", "AvailableBytes", "Inodes", "InodesAvailable")
	if diff := cmp.Diff(want, got, sizes); diff != "" {
		t.Error(diff)
	}
	for _, fs := range got.Filesystems {
		if fs.CapacityBytes == 0 || fs.AvailableBytes > fs.CapacityBytes || fs.InodesAvailable > fs.Inodes {
			t.Errorf("%+v", fs)
		}
	}
}

func TestFactsAreToldWithoutTheRuntimeAndWithoutFiles(t *testing.T) {
	h, rt := newTestHost(t, func(o *Options) {
		o.SystemRoot = t.TempDir()
		o.Interfaces = func() ([]Interface, error) { return nil, errors.New("no netlink") }
	})
	rt.err = errdefs.ErrUnavailable
	got, err := h.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.CPUs < 1 || got.Architecture == "" || got.Clock.IsZero() || len(got.Filesystems) != 1 {
		t.Errorf("%+v", got)
	}
	if got.CgroupDriver != "" || got.CgroupVersion != 1 || got.MachineID != "" || got.Addresses != nil {
		t.Errorf("made up: %+v", got)
	}
}

func TestFactsEndWithTheCaller(t *testing.T) {
	h, _ := newTestHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.Facts(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestMachineWithoutFirmwareTablesUsesItsMachineID(t *testing.T) {
	system := t.TempDir()
	put(t, filepath.Join(system, "var/lib/dbus/machine-id"), "abc\n")
	h, _ := newTestHost(t, func(o *Options) { o.SystemRoot = system })
	got, err := h.Facts(t.Context())
	if err != nil || got.MachineID != "abc" || got.SystemUUID != "abc" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFilesThatAreNotTextAreMadeText(t *testing.T) {
	system := t.TempDir()
	put(t, filepath.Join(system, "etc/hosts"), "127.0.0.1 caf\xe9\n")
	put(t, filepath.Join(system, "etc/os-release"), "PRETTY_NAME=\"\xff\"\n")
	put(t, filepath.Join(system, "etc/resolv.conf"), strings.Repeat("x", 2*maxFactBytes))
	h, _ := newTestHost(t, func(o *Options) { o.SystemRoot = system })
	got, err := h.Facts(t.Context())
	if err != nil || got.Hosts != "127.0.0.1 caf\uFFFD\n" || got.OSImage != "\uFFFD" || len(got.ResolvConf) != maxFactBytes {
		t.Errorf("%q %q %d, %v", got.Hosts, got.OSImage, len(got.ResolvConf), err)
	}
}

func TestThisMachineHasFacts(t *testing.T) {
	h, _ := newTestHost(t)
	got, err := h.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.BootID == "" || got.Hostname == "" || got.KernelVersion == "" || got.MemoryBytes == 0 || got.PIDMax == 0 || got.PIDsRunning == 0 {
		t.Errorf("%+v", got)
	}
}

func TestParsers(t *testing.T) {
	for name, test := range map[string]struct{ got, want any }{
		"cpus, one":             {parseCPUList([]byte("0\n")), 1},
		"cpus, ranges":          {parseCPUList([]byte("0-1,4,6-7")), 5},
		"cpus, none":            {parseCPUList(nil), 0},
		"cpus, backwards":       {parseCPUList([]byte("3-1")), 0},
		"cpus, absurd":          {parseCPUList([]byte("0-99999999999")), 0},
		"cpus, not a number":    {parseCPUList([]byte("0-x")), 0},
		"os, quoted":            {parseOSRelease([]byte("ID=x\nPRETTY_NAME=\"A \\\"B\\\" \\$1\"\n")), `A "B" $1`},
		"os, single quotes":     {parseOSRelease([]byte("PRETTY_NAME='A B'\n")), "A B"},
		"os, bare":              {parseOSRelease([]byte("PRETTY_NAME=Alpine\n")), "Alpine"},
		"os, missing":           {parseOSRelease([]byte("NAME=x\n")), ""},
		"load, short":           {parseLoadavg([]byte("0.1 0.1")), uint64(0)},
		"route":                 {parseDefaultRoute([]byte(testRoute)), "eth0"},
		"route, none":           {parseDefaultRoute([]byte("Iface\n")), ""},
		"route, rejecting":      {parseDefaultRoute([]byte("eth0 00000000 0 0201 0 0 0 00000000")), ""},
		"route, down":           {parseDefaultRoute([]byte("eth0 00000000 0 0000 0 0 0 00000000")), ""},
		"route6":                {parseDefaultRoute6([]byte(testRoute6)), "eth0"},
		"huge pages":            {parseHugePageSizes([]string{"hugepages-1048576kB", "x", "hugepages-2048kB", "hugepages-kB", "hugepages-0kB", "hugepages-99999999999999kB", "hugepages-4MB"}), []uint64{2 << 20, 1 << 30}},
		"own cgroup, v1":        {parseOwnCgroup([]byte("3:cpu:/a\n")), ""},
		"meminfo, overflow":     {parseMeminfo([]byte("MemTotal: 18446744073709551615 kB"))["MemTotal"], uint64(0)},
		"meminfo, without unit": {parseMeminfo([]byte("HugePages_Total: 5"))["HugePages_Total"], uint64(0)},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func FuzzParsers(f *testing.F) {
	for _, seed := range []string{testMeminfo, testRoute, testRoute6, "0-3,8", "0.20 0.18 0.12 1/812 11206", `PRETTY_NAME="a"`, "'", `"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parseMeminfo(data)
		parseLoadavg(data)
		parseOSRelease(data)
		parseUint(data)
		parseDefaultRoute(data)
		parseDefaultRoute6(data)
		parseOwnCgroup(data)
		parseHugePageSizes([]string{string(data)})
		if n := parseCPUList(data); n < 0 || n > maxCPUs {
			t.Errorf("%d processors", n)
		}
		if n, ok := restartNumber(string(data)); n < 0 || (n > 0 && !ok) {
			t.Errorf("restart number %d, %v", n, ok)
		}
		if record := parseHookRecord(data); record.result() == nil {
			t.Error("a record without a result")
		}
	})
}

func TestControllersOfTheOldHierarchyAreThoseThatAreEnabled(t *testing.T) {
	got := parseCgroups([]byte("#subsys_name\thierarchy\tnum_cgroups\tenabled\npids\t5\t80\t1\nmemory\t0\t80\t0\ncpu\t3\t9\t1\nbroken\n"))
	if diff := cmp.Diff([]string{"cpu", "pids"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestReaderTellsFactsWithoutTakingPossessionOfAnything(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not", "there")
	reader, err := NewReader(Options{RootDir: root, PodLogsDir: "/var/log/pods", Runtime: &fakeRuntime{}, SystemRoot: testSystem(t)})
	if err != nil {
		t.Fatal(err)
	}
	facts, err := reader.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if facts.RootDir != root || len(facts.Filesystems) == 0 || facts.Filesystems[0].CapacityBytes == 0 {
		t.Errorf("facts of a root directory that is not there: %+v", facts)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("the root directory was made: %v", err)
	}
}
