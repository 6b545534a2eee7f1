// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podcgroup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/cgroups"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/host"
)

const uid = "3f1c-9a"

// fakeGroups stands for the control groups of a machine: a directory for each.
type fakeGroups struct {
	dir    string
	set    map[string]cgroups.Resources
	pids   map[string][]int
	killed []int
	busy   int // how often the next removals fail
	// noHugetlb and noPIDs say that the machine lacks the controller.
	noHugetlb, noPIDs bool
	// unified says that a group has one directory for all controllers.
	unified bool
	configs []cgroups.Cgroup
}

// fakeGroup implements what a Manager uses of a group.
type fakeGroup struct {
	cgroups.Manager
	f    *fakeGroups
	name string
}

func (g fakeGroup) path() string { return filepath.Join(g.f.dir, filepath.Base(g.name)) }

func (g fakeGroup) Apply(pid int) error {
	if pid != -1 {
		return errors.New("a process must not join")
	}
	if err := os.MkdirAll(g.path(), 0o755); err != nil || g.f.noPIDs {
		return err
	}
	return os.WriteFile(filepath.Join(g.path(), "pids.max"), nil, 0o644)
}

func (g fakeGroup) Set(r *cgroups.Resources) error {
	g.f.set[g.name] = *r
	return nil
}

func (g fakeGroup) GetPaths() map[string]string {
	return map[string]string{"cpu": g.path(), "pids": filepath.Join(g.f.dir, "missing")}
}

// Path is that of the group for the controllers that the machine has.
func (g fakeGroup) Path(controller string) string {
	if controller == "hugetlb" && g.f.noHugetlb || controller == "pids" && g.f.noPIDs && !g.f.unified {
		return ""
	}
	return g.path()
}

func (g fakeGroup) GetAllPids() ([]int, error) { return g.f.pids[g.name], nil }

func (g fakeGroup) Destroy() error {
	if g.f.busy > 0 {
		g.f.busy--
		return errors.New("device or resource busy")
	}
	if len(g.f.pids[g.name]) > 0 {
		return errors.New("not empty")
	}
	return os.RemoveAll(g.path())
}

func newFake(t *testing.T, driver string) (*Manager, *fakeGroups) {
	t.Helper()
	f := &fakeGroups{dir: t.TempDir(), set: map[string]cgroups.Resources{}, pids: map[string][]int{}}
	m := New(driver)
	m.open = func(c *cgroups.Cgroup) (cgroups.Manager, error) {
		f.configs = append(f.configs, *c)
		return fakeGroup{f: f, name: c.Path + c.Name}, nil
	}
	m.kill = func(pid int) error {
		f.killed = append(f.killed, pid)
		clear(f.pids)
		return nil
	}
	return m, f
}

func TestNamesOfGroups(t *testing.T) {
	for _, tt := range []struct {
		driver        string
		class         v1.PodQOSClass
		name, parents string
	}{
		{"cgroupfs", v1.PodQOSGuaranteed, "/tombolo/kubepods/pod3f1c-9a", ""},
		{"cgroupfs", v1.PodQOSBurstable, "/tombolo/kubepods/burstable/pod3f1c-9a", ""},
		{"cgroupfs", v1.PodQOSBestEffort, "/tombolo/kubepods/besteffort/pod3f1c-9a", ""},
		{"systemd", v1.PodQOSGuaranteed, "tombolo-kubepods-pod3f1c_9a.slice", "tombolo-kubepods.slice"},
		{"systemd", v1.PodQOSBurstable, "tombolo-kubepods-burstable-pod3f1c_9a.slice", "tombolo-kubepods-burstable.slice"},
		{"systemd", v1.PodQOSBestEffort, "tombolo-kubepods-besteffort-pod3f1c_9a.slice", "tombolo-kubepods-besteffort.slice"},
	} {
		m, f := newFake(t, tt.driver)
		parent, err := m.Ensure(host.PodCgroup{UID: uid, Class: tt.class})
		if err != nil || parent != tt.name {
			t.Errorf("%s %s: parent %q, %v; want %q", tt.driver, tt.class, parent, err, tt.name)
		}
		c := f.configs[0]
		if c.Path+c.Name != tt.name || c.Parent != tt.parents || c.Systemd != (tt.driver == "systemd") {
			t.Errorf("%s %s: %+v", tt.driver, tt.class, c)
		}
	}
}

func TestResourcesOfAGroup(t *testing.T) {
	m, f := newFake(t, "cgroupfs")
	for _, r := range []host.CgroupResources{{CPUShares: 512, CPUQuota: 50_000, MemoryBytes: 1 << 20}, {}} {
		if _, err := m.Ensure(host.PodCgroup{UID: uid, Class: v1.PodQOSGuaranteed, Resources: r}); err != nil {
			t.Fatal(err)
		}
		got := f.set["/tombolo/kubepods/pod"+uid]
		want := cgroups.Resources{
			CpuShares: uint64(max(r.CPUShares, 2)), CpuPeriod: 100_000, SkipDevices: true, SkipFreezeOnSet: true,
			CpuQuota: -1, Memory: -1, CpuWeight: 1, PidsLimit: new(int64(-1)), // what is not limited takes back a limit
		}
		if r.CPUQuota > 0 {
			want.CpuQuota, want.Memory, want.CpuWeight = r.CPUQuota, r.MemoryBytes, 20
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWeightsAreTheKubelets(t *testing.T) {
	for shares, want := range map[int64]uint64{0: 1, 2: 1, 102: 4, 1024: 39, 2048: 79, 262144: 10000, 1 << 40: 10000} {
		if got := cpuWeight(shares); got != want {
			t.Errorf("%d shares weigh %d, want %d", shares, got, want)
		}
	}
}

func TestPIDsAndHugePagesOfAGroup(t *testing.T) {
	sizes := cgroups.HugePageSizes()
	for _, file := range []string{"limit_in_bytes", "max"} { // of cgroup v1 and v2
		m, f := newFake(t, "cgroupfs")
		name := "/tombolo/kubepods/pod" + uid
		dir := fakeGroup{f: f, name: name}.path()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		var want []*cgroups.HugepageLimit
		for _, size := range sizes {
			if err := os.WriteFile(filepath.Join(dir, "hugetlb."+size+"."+file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			limit := &cgroups.HugepageLimit{Pagesize: size}
			if size == "2MB" {
				limit.Limit = 8 << 20
			}
			want = append(want, limit)
		}
		r := host.CgroupResources{PIDs: 100, HugePages: []host.HugePageLimit{{PageBytes: 2 << 20, Bytes: 8 << 20}, {PageBytes: 3 << 40, Bytes: 1}}}
		if _, err := m.Ensure(host.PodCgroup{UID: uid, Class: v1.PodQOSGuaranteed, Resources: r}); err != nil {
			t.Fatal(err)
		}
		got := f.set[name]
		if diff := cmp.Diff(want, got.HugetlbLimit); diff != "" || got.PidsLimit == nil || *got.PidsLimit != 100 {
			t.Errorf("%s: pids %v, huge pages (-want +got):\n%s", file, got.PidsLimit, diff)
		}
	}
}

func TestMachineWithoutAControllerIsNotAskedToLimit(t *testing.T) {
	for _, unified := range []bool{false, true} {
		m, f := newFake(t, "cgroupfs")
		f.noHugetlb, f.noPIDs, f.unified = true, true, unified
		if _, err := m.Ensure(host.PodCgroup{UID: uid, Class: v1.PodQOSGuaranteed}); err != nil {
			t.Fatal(err)
		}
		if got := f.set["/tombolo/kubepods/pod"+uid]; got.PidsLimit != nil || got.HugetlbLimit != nil {
			t.Errorf("unified %v: limits of pids %v, of huge pages %v", unified, got.PidsLimit, got.HugetlbLimit)
		}
	}
}

func TestTiers(t *testing.T) {
	m, f := newFake(t, "cgroupfs")
	if err := m.SetTiers(4, 3000); err != nil {
		t.Fatal(err)
	}
	burstable, bestEffort := f.set["/tombolo/kubepods/burstable"], f.set["/tombolo/kubepods/besteffort"]
	if burstable.PidsLimit != nil || burstable.HugetlbLimit != nil {
		t.Errorf("pods of a class are limited together: %+v", burstable)
	}
	if burstable.CpuShares != 3000 || bestEffort.CpuShares != 2 {
		t.Errorf("burstable %+v, best effort %+v", burstable, bestEffort)
	}
	for _, name := range []string{"/tombolo", "/tombolo/kubepods"} {
		if above := f.set[name]; above.CpuShares != 4*1024 || above.PidsLimit != nil || above.Memory != unlimited {
			t.Errorf("%s, for a machine of four processors: %+v", name, above)
		}
	}
}

func TestRemovalKillsWhatIsLeftAndTriesAgain(t *testing.T) {
	m, f := newFake(t, "cgroupfs")
	if _, err := m.Ensure(host.PodCgroup{UID: uid, Class: v1.PodQOSBurstable}); err != nil {
		t.Fatal(err)
	}
	f.pids["/tombolo/kubepods/burstable/pod"+uid] = []int{17, 18}
	f.busy = 2
	if err := m.Remove(uid); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{17, 18}, f.killed); diff != "" {
		t.Error(diff)
	}
	if left, err := os.ReadDir(f.dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if err := m.Remove(uid); err != nil {
		t.Errorf("once more: %v", err)
	}
}

func TestRemovalOfAGroupThatStaysBusyFails(t *testing.T) {
	m, f := newFake(t, "cgroupfs")
	if _, err := m.Ensure(host.PodCgroup{UID: uid, Class: v1.PodQOSBurstable}); err != nil {
		t.Fatal(err)
	}
	f.busy = 1000
	if err := m.Remove(uid); err == nil {
		t.Error("no error")
	}
}
