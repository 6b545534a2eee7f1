// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

func ids(t *testing.T, h *Host, uid types.UID) host.IDRange {
	t.Helper()
	got, err := h.EnsureIDRange(t.Context(), uid)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestIDRangesAreKeptDoNotOverlapAndGoWithThePod(t *testing.T) {
	root, logs, system := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, filepath.Join(system, "proc/self/mountinfo"), "")
	open := func() *Host {
		h, _ := newTestHost(t, func(o *Options) { o.RootDir, o.PodLogsDir, o.SystemRoot = root, logs, system })
		return h
	}
	h := open()
	a, b := ids(t, h, "a"), ids(t, h, "b")
	if diff := cmp.Diff([]host.IDRange{{First: 65536, Length: 65536}, {First: 131072, Length: 65536}}, []host.IDRange{a, b}); diff != "" {
		t.Fatalf("ranges (-want +got):\n%s", diff)
	}
	content, err := os.ReadFile(filepath.Join(root, "pods", "b", "userns"))
	const want = `{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}`
	if err != nil || string(content) != want {
		t.Errorf("the record is %q (%v), want the kubelet's %q", content, err, want)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h = open()
	if again := ids(t, h, "b"); again != b {
		t.Errorf("after a restart the pod has %v instead of %v", again, b)
	}
	if c := ids(t, h, "c"); c == a || c == b {
		t.Errorf("another pod got the range %v of a pod that is there", c)
	}
	if err := h.RemovePod(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	if d := ids(t, h, "d"); d != a {
		t.Errorf("the range %v that became free was not used again, but %v", a, d)
	}
}

// TestIDRangeStaysWithAPodWhoseFilesCouldNotBeRemoved: they belong to those ids.
func TestIDRangeStaysWithAPodWhoseFilesCouldNotBeRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a file that cannot be removed")
	}
	h, _ := newTestHost(t)
	a := ids(t, h, "a")
	for _, name := range []string{"aa", "zz"} { // before and behind the record
		put(t, filepath.Join(h.rootDir, podDir("a"), name, "file"), "x")
	}
	immutable := func(on bool) {
		t.Helper()
		dir, err := os.Open(filepath.Join(h.rootDir, podDir("a"), "zz"))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		flags, err := unix.IoctlGetUint32(int(dir.Fd()), unix.FS_IOC_GETFLAGS)
		if err != nil {
			t.Skipf("the file system has no immutable directories: %v", err)
		}
		if flags &^= unix.STATX_ATTR_IMMUTABLE; on {
			flags |= unix.STATX_ATTR_IMMUTABLE // the same bit
		}
		if err := unix.IoctlSetPointerInt(int(dir.Fd()), unix.FS_IOC_SETFLAGS, int(flags)); err != nil {
			t.Skipf("the file system has no immutable directories: %v", err)
		}
	}
	immutable(true)
	err := h.RemovePod(t.Context(), "a", true)
	b := ids(t, h, "b")
	immutable(false)
	if err == nil || b == a {
		t.Errorf("removed: %v; another pod got %v beside %v", err, b, a)
	}
	if err := h.RemovePod(t.Context(), "a", true); err != nil {
		t.Fatal(err)
	}
	if c := ids(t, h, "c"); c != a {
		t.Errorf("the range %v that became free was not used again, but %v", a, c)
	}
}

func TestIDRangesOfPodsThatComeAtOnceDoNotOverlap(t *testing.T) {
	h, _ := newTestHost(t, func(o *Options) { o.SystemRoot = t.TempDir() })
	var mu sync.Mutex
	owners := map[uint32][]string{}
	var pods sync.WaitGroup
	for i := range 40 {
		pods.Go(func() {
			uid := fmt.Sprint("pod-", i/2) // each pod asks twice
			got, err := h.EnsureIDRange(t.Context(), types.UID(uid))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			owners[got.First] = append(owners[got.First], uid)
		})
	}
	pods.Wait()
	if len(owners) != 20 {
		t.Errorf("20 pods have %d ranges", len(owners))
	}
	for first, uids := range owners {
		if len(uids) != 2 || uids[0] != uids[1] {
			t.Errorf("range %d belongs to %v", first, uids)
		}
	}
}

func TestIDRangesAreThoseOfTheUserThatStandsForUs(t *testing.T) {
	const three = ":131072:196608\n"
	for _, tt := range []struct {
		desc, uids, gids string
		first            uint32
		err              string
	}{
		{"none", "someone:100000:65536\n", "someone:100000:65536\n", 65536, ""},
		{"ours", "kubelet:65536:65536\ntombolo" + three, "tombolo" + three + "x\n", 131072, ""},
		{"the kubelet's", "kubelet" + three, "kubelet" + three, 131072, ""},
		{"only users", "tombolo" + three, "", 0, "one and the same range"},
		{"two ranges", "tombolo" + three + "tombolo:65536:65536\n", "tombolo" + three, 0, "one and the same range"},
		{"odd", "tombolo:100000:65536\n", "tombolo:100000:65536\n", 0, "the first id 100000 is not a multiple of 65536"},
		{"the machine's own", "tombolo:0:65536\n", "tombolo:0:65536\n", 0, "the first id 0"},
		{"too few", "tombolo:65536:1000\n", "tombolo:65536:1000\n", 0, "the number of ids 1000"},
		{"beyond the end", "tombolo:4294901760:65536\n", "tombolo:4294901760:65536\n", 0, "beyond the kernel's last"},
	} {
		system := t.TempDir()
		put(t, filepath.Join(system, "etc/subuid"), tt.uids)
		put(t, filepath.Join(system, "etc/subgid"), tt.gids)
		h, _ := newTestHost(t, func(o *Options) { o.SystemRoot = system })
		got, err := h.EnsureIDRange(t.Context(), "a")
		if tt.err != "" {
			if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", tt.desc, err, tt.err)
			}
			continue
		}
		if err != nil || got.First != tt.first {
			t.Errorf("%s: %v, %v; want the first to be %d", tt.desc, got, err, tt.first)
		}
	}
}

func TestIDRangesEnd(t *testing.T) {
	system := t.TempDir()
	put(t, filepath.Join(system, "etc/subuid"), "tombolo:4294770688:131072\n")
	put(t, filepath.Join(system, "etc/subgid"), "tombolo:4294770688:131072\n")
	h, _ := newTestHost(t, func(o *Options) { o.SystemRoot = system })
	if a, b := ids(t, h, "a"), ids(t, h, "b"); a.First != 4294770688 || b.First != 4294836224 {
		t.Errorf("%v, %v", a, b)
	}
	if _, err := h.EnsureIDRange(t.Context(), "c"); !errdefs.IsResourceExhausted(err) {
		t.Errorf("the third of two: %v", err)
	}
	if got := ids(t, h, "a"); got.First != 4294770688 {
		t.Errorf("the first of two now has %v", got)
	}
}

func TestRecordOfIDsThatCannotBeReadGivesNothingAway(t *testing.T) {
	h, _ := newTestHost(t, func(o *Options) { o.SystemRoot = t.TempDir() })
	ids(t, h, "a")
	kept := ids(t, h, "c")
	put(t, filepath.Join(h.rootDir, "pods", "a", "userns"), "{")
	if got := ids(t, h, "c"); got != kept {
		t.Errorf("a pod that has a range has %v beside it, had %v", got, kept)
	}
	for _, uid := range []types.UID{"a", "b"} {
		if got, err := h.EnsureIDRange(t.Context(), uid); err == nil || !strings.Contains(err.Error(), "pod a") {
			t.Errorf("%s: %v, %v; want an error that names the pod", uid, got, err)
		}
	}
	if _, err := h.EnsureIDRange(t.Context(), "../a"); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a path for a UID: %v", err)
	}
	if _, err := os.Stat(filepath.Join(h.rootDir, "pods", "b", "userns")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a record was made: %v", err)
	}
}

func FuzzIDRange(f *testing.F) {
	f.Add([]byte(`{"uidMappings":[{"hostId":131072,"containerId":0,"length":65536}],"gidMappings":[{"hostId":131072,"containerId":0,"length":65536}]}`), "tombolo:65536:65536\n")
	f.Add([]byte(`{"uidMappings":[{}],"gidMappings":[{}]}`), "tombolo:4294967295:4294967295")
	f.Fuzz(func(t *testing.T, record []byte, subordinates string) {
		ranges := parseSubordinates([]byte(subordinates), "tombolo")
		if got, err := parseIDRange(record); err == nil {
			ranges = append(ranges, got)
			if checkIDs(got) != nil {
				t.Errorf("%q gives %v", record, got)
			}
		}
		for _, r := range ranges {
			if checkIDs(r) == nil && (r.First < host.IDsPerPod || r.First+r.Length < r.First) {
				t.Errorf("%v is taken for a range of pods", r)
			}
		}
	})
}
