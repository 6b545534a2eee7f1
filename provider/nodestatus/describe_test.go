// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodestatus

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/provider/machine"
)

var update = flag.Bool("update", false, "write the golden files anew")

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func testConfig() Config {
	return Config{
		Name:   "edge-1",
		Labels: map[string]string{"topology.kubernetes.io/zone": "island", "example.com/kind": "edge"},
		Taints: []v1.Taint{{Key: "virtual-kubelet.io/provider", Value: "tombolo", Effect: v1.TaintEffectNoSchedule}},
		NodeIP: netip.MustParseAddr("10.1.2.3"), Port: 10250, MaxPods: 110,
		KubeletVersion: KubeletVersion("v0.1.0"),
	}
}

func testFacts() *host.Facts {
	return &host.Facts{
		MachineID: "0123456789abcdef", SystemUUID: "a-b-c", BootID: "boot-1", Hostname: "far",
		OS: "linux", Architecture: "arm64", KernelVersion: "6.18.0", OSImage: "Debian GNU/Linux 12 (bookworm)",
		CPUs: 4, MemoryBytes: 8 << 30, MemoryAvailable: 4 << 30, SwapBytes: 1 << 30, PIDMax: 32768, PIDsRunning: 200,
		HugePages: []host.HugePages{{PageBytes: 2 << 20, Count: 64}, {PageBytes: 1 << 30}},
		Filesystems: []host.Filesystem{
			{Purpose: "nodefs", Path: "/var/lib/tombolo", CapacityBytes: 100 << 30, AvailableBytes: 50 << 30, Inodes: 1000, InodesAvailable: 900},
			{Purpose: "imagefs", Path: "/var/lib/containerd", CapacityBytes: 100 << 30, AvailableBytes: 50 << 30, Inodes: 1000, InodesAvailable: 900},
		},
		Addresses: []string{"192.0.2.7"},
	}
}

func testState() machine.State {
	return machine.State{
		Target:  "tls://192.0.2.7:8470",
		Facts:   testFacts(),
		Version: &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.4.2"},
		Runtime: &runtimeapi.StatusResponse{
			Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
				{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
			}},
			RuntimeHandlers: []*runtimeapi.RuntimeHandler{
				{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{UserNamespaces: true}}, {Name: "", Features: &runtimeapi.RuntimeHandlerFeatures{}},
			},
		},
	}
}

// golden compares what the node looks like with a file.
func golden(t *testing.T, name string, node *v1.Node) {
	t.Helper()
	got, err := yaml.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".golden.yaml")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

func TestDescribeTellsTheTruthOfTheRemoteMachine(t *testing.T) {
	for name, change := range map[string]func(*machine.State){
		"ready":     func(*machine.State) {},
		"link-down": func(s *machine.State) { s.Link = &machine.Outage{Since: epoch, Err: errRefused} },
		"unknown-facts": func(s *machine.State) {
			s.Facts = &host.Facts{OS: "linux", Architecture: "amd64"}
		},
		"no-network": func(s *machine.State) {
			s.Runtime.Status.Conditions[1] = &runtimeapi.RuntimeCondition{
				Type: runtimeapi.NetworkReady, Reason: "NetworkPluginNotReady", Message: "cni plugin not initialized",
			}
		},
		"pressure": func(s *machine.State) {
			s.Facts.MemoryAvailable = 50 << 20
			s.Facts.Filesystems[1].AvailableBytes = 14 << 30
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := testState(), testConfig()
			change(&s)
			var p pressures
			p.observe(s.Facts, epoch)
			node := c.describe(&s)
			node.Status.Conditions = conditions(&s, node.Status.Capacity, nil, &p, nil, epoch)
			golden(t, name, node)
		})
	}
}

func TestInheritTakesOverOnlyWhatIsOurs(t *testing.T) {
	c, s := testConfig(), testState()
	remembered := c.describe(&s)
	remembered.UID, remembered.ResourceVersion = "node-uid", "7"
	remembered.Labels["example.com/theirs"] = "x"
	remembered.Annotations["example.com/theirs"] = "x"
	remembered.Spec.Taints = append(remembered.Spec.Taints, v1.Taint{Key: "theirs", Effect: v1.TaintEffectNoSchedule})
	remembered.Status.Capacity["example.com/dongle"] = resource.MustParse("1")
	remembered.Status.Images = []v1.ContainerImage{{Names: []string{"busybox"}}}
	remembered.Status.VolumesAttached = []v1.AttachedVolume{{Name: "v"}}
	remembered.Status.Conditions = []v1.NodeCondition{{Type: "KernelDeadlock", Status: v1.ConditionFalse}}

	if d := cmp.Diff(c.describe(&s), c.inherit(remembered)); d != "" {
		t.Errorf("node from memory differs from the described one (-want +got):\n%s", d)
	}
}

func TestInheritWithoutKnownArchitectureSetsNoEmptyLabels(t *testing.T) {
	c := testConfig()
	node := c.inherit(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge-1"}})
	want := map[string]string{
		"kubernetes.io/hostname": "edge-1", "topology.kubernetes.io/zone": "island", "example.com/kind": "edge",
	}
	if d := cmp.Diff(want, node.Labels); d != "" {
		t.Errorf("labels (-want +got):\n%s", d)
	}
}

func TestKubeletVersionIsASemanticVersionOfTheReleaseItBehavesLike(t *testing.T) {
	for in, want := range map[string]string{
		"v0.1.0":               KubernetesVersion + "-tombolo.v0.1.0",
		"v0.1.0-3-gabc1234":    KubernetesVersion + "-tombolo.v0.1.0-3-gabc1234",
		"v0.1.0+dirty":         KubernetesVersion + "-tombolo.v0.1.0-dirty",
		"0123456":              KubernetesVersion + "-tombolo.g0123456",
		"":                     KubernetesVersion + "-tombolo",
		"weird version/ (x) .": KubernetesVersion + "-tombolo.weird-version-x-",
	} {
		got := KubeletVersion(in)
		if got != want {
			t.Errorf("KubeletVersion(%q) = %q, want %q", in, got, want)
		}
		parsed, err := version.ParseSemantic(got)
		if err != nil {
			t.Errorf("KubeletVersion(%q): %v", in, err)
			continue
		}
		if !parsed.AtLeast(version.MustParseSemantic("v1.37.0")) || parsed.Minor() != 37 {
			t.Errorf("KubeletVersion(%q) = %q is not of the 1.37 series", in, got)
		}
	}
}

func TestKubernetesVersionIsTheOneOfTheAPITypes(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`k8s\.io/api v0\.(\d+\.\d+)`).FindSubmatch(mod)
	if m == nil || "v1."+string(m[1]) != KubernetesVersion {
		t.Errorf("go.mod has k8s.io/api v0.%s, KubernetesVersion is %s", m[1], KubernetesVersion)
	}
}

func TestImagesAreTheLargestFiftyWithFiveNames(t *testing.T) {
	var list []*runtimeapi.Image
	for i := range 60 {
		list = append(list, &runtimeapi.Image{Id: string(rune('a' + i)), Size: uint64(i), RepoTags: []string{"t"}})
	}
	list = append(list,
		&runtimeapi.Image{Id: "largest", Size: 1000, RepoTags: []string{"t1", "t2", "t3", "t4"}, RepoDigests: []string{"d1", "d2"}},
		&runtimeapi.Image{Id: "nameless", Size: 2000})
	got := images(list)
	if len(got) != 50 {
		t.Fatalf("%d images", len(got))
	}
	want := []v1.ContainerImage{{Names: []string{"d1", "d2", "t1", "t2", "t3"}, SizeBytes: 1000}, {Names: []string{"t"}, SizeBytes: 59}}
	if d := cmp.Diff(want, got[:2]); d != "" {
		t.Errorf("first images (-want +got):\n%s", d)
	}
}

func TestPressureFollowsTheKubeletsThresholds(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*host.Facts)
		want   []v1.NodeConditionType
	}{
		"plenty":          {change: func(*host.Facts) {}},
		"nothing known":   {change: func(f *host.Facts) { *f = host.Facts{} }},
		"memory at bound": {change: func(f *host.Facts) { f.MemoryAvailable = 100 << 20 }},
		"memory below":    {change: func(f *host.Facts) { f.MemoryAvailable = 100<<20 - 1 }, want: []v1.NodeConditionType{v1.NodeMemoryPressure}},
		"nodefs at bound": {change: func(f *host.Facts) { f.Filesystems[0].AvailableBytes = 10 << 30 }},
		"nodefs below":    {change: func(f *host.Facts) { f.Filesystems[0].AvailableBytes = 10<<30 - 1 }, want: []v1.NodeConditionType{v1.NodeDiskPressure}},
		"imagefs below":   {change: func(f *host.Facts) { f.Filesystems[1].AvailableBytes = 15<<30 - 1 }, want: []v1.NodeConditionType{v1.NodeDiskPressure}},
		"inodes below":    {change: func(f *host.Facts) { f.Filesystems[0].InodesAvailable = 49 }, want: []v1.NodeConditionType{v1.NodeDiskPressure}},
		"no inodes at all, as on btrfs": {change: func(f *host.Facts) {
			f.Filesystems[0].Inodes, f.Filesystems[0].InodesAvailable = 0, 0
		}},
		"process ids have no default threshold": {change: func(f *host.Facts) { f.PIDsRunning = f.PIDMax }},
	} {
		t.Run(name, func(t *testing.T) {
			f := testFacts()
			tc.change(f)
			var p pressures
			p.observe(f, epoch)
			var got []v1.NodeConditionType
			for _, w := range pressureWordings {
				if p.holds(w.kind, epoch) {
					got = append(got, w.kind)
				}
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("pressure (-want +got):\n%s", d)
			}
		})
	}
}

func TestPressureIsHeldFiveMinutesAfterItWasLastSeen(t *testing.T) {
	low, high := testFacts(), testFacts()
	low.MemoryAvailable = 1 << 20
	var p pressures
	p.observe(low, epoch)
	p.observe(low, epoch.Add(time.Minute)) // the same answer again proves nothing
	p.observe(high, epoch.Add(2*time.Minute))
	if !p.holds(v1.NodeMemoryPressure, epoch.Add(5*time.Minute-time.Second)) {
		t.Error("pressure was dropped before five minutes")
	}
	if p.holds(v1.NodeMemoryPressure, epoch.Add(5*time.Minute)) {
		t.Error("pressure is held for longer than five minutes")
	}
}

func TestConditionsKeepTheTimeOfTransition(t *testing.T) {
	s := testState()
	old := metav1.NewTime(epoch.Add(-time.Hour))
	prior := []v1.NodeCondition{
		{Type: v1.NodeReady, Status: v1.ConditionUnknown, LastTransitionTime: old},
		{Type: v1.NodeMemoryPressure, Status: v1.ConditionFalse, LastTransitionTime: old},
	}
	c := testConfig()
	got := conditions(&s, c.capacity(s.Facts), nil, &pressures{}, prior, epoch)
	if at := condition(got, v1.NodeMemoryPressure).LastTransitionTime; !at.Equal(&old) {
		t.Errorf("unchanged condition has its transition at %v", at)
	}
	if at := condition(got, v1.NodeReady).LastTransitionTime; !at.Time.Equal(epoch) {
		t.Errorf("changed condition has its transition at %v", at)
	}
}

func TestConditionsKeepPressureWhileNothingIsKnown(t *testing.T) {
	s := machine.State{Link: &machine.Outage{Since: epoch, Err: errRefused}}
	prior := []v1.NodeCondition{{Type: v1.NodeDiskPressure, Status: v1.ConditionTrue}}
	got := conditions(&s, nil, nil, &pressures{}, prior, epoch)
	if is := condition(got, v1.NodeDiskPressure).Status; is != v1.ConditionTrue {
		t.Errorf("DiskPressure = %s after a restart with the link down", is)
	}
}

func TestSkewAlarmsOnceWithHysteresis(t *testing.T) {
	var s skew
	var got []bool
	for _, offset := range []time.Duration{0, 9 * time.Second, -11 * time.Second, -6 * time.Second, 4 * time.Second, 8 * time.Second} {
		s = s.next(offset)
		got = append(got, bool(s))
	}
	if d := cmp.Diff([]bool{false, false, true, true, false, false}, got); d != "" {
		t.Errorf("apart (-want +got):\n%s", d)
	}
}
