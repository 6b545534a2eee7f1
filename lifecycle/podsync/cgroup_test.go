// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// amounts returns requests and limits, each "cpu/memory", "" for none.
func amounts(requests, limits string) v1.ResourceRequirements {
	list := func(text string) v1.ResourceList {
		out := v1.ResourceList{}
		for i, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
			if part := split(text)[i]; part != "" {
				out[name] = resource.MustParse(part)
			}
		}
		return out
	}
	return v1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
}

func split(text string) [2]string {
	for i := range text {
		if text[i] == '/' {
			return [2]string{text[:i], text[i+1:]}
		}
	}
	return [2]string{text, ""}
}

func TestCgroupOfAPod(t *testing.T) {
	always := v1.ContainerRestartPolicyAlways
	containers := func(rs ...v1.ResourceRequirements) (out []v1.Container) {
		for _, r := range rs {
			out = append(out, v1.Container{Resources: r})
		}
		return out
	}
	whole := amounts("2/3Gi", "4/5Gi")
	requestOnly := amounts("1/1Gi", "")
	for _, tt := range []struct {
		desc  string
		spec  v1.PodSpec
		class v1.PodQOSClass
		want  host.CgroupResources
	}{
		{"nothing asked for", v1.PodSpec{Containers: containers(v1.ResourceRequirements{})}, v1.PodQOSBestEffort, host.CgroupResources{CPUShares: 2}},
		{"all limited", v1.PodSpec{Containers: containers(amounts("1/1Gi", "1/1Gi"), amounts("500m/1Gi", "500m/1Gi"))},
			v1.PodQOSGuaranteed, host.CgroupResources{CPUShares: 1536, CPUQuota: 150_000, MemoryBytes: 2 << 30}},
		{"one without a limit of memory", v1.PodSpec{Containers: containers(amounts("1/1Gi", "2/2Gi"), amounts("500m/1Gi", "1/"))},
			v1.PodQOSBurstable, host.CgroupResources{CPUShares: 1536, CPUQuota: 300_000}},
		{"an init container without limits", v1.PodSpec{InitContainers: containers(requestOnly), Containers: containers(amounts("1/1Gi", "2/2Gi"))},
			v1.PodQOSBurstable, host.CgroupResources{CPUShares: 1024}},
		{"a sidecar counts", v1.PodSpec{
			InitContainers: []v1.Container{{RestartPolicy: &always, Resources: amounts("1/1Gi", "1/1Gi")}}, Containers: containers(amounts("1/1Gi", "1/1Gi")),
		}, v1.PodQOSGuaranteed, host.CgroupResources{CPUShares: 2048, CPUQuota: 200_000, MemoryBytes: 2 << 30}},
		{"the pod's own limits", v1.PodSpec{Resources: &whole, Containers: containers(requestOnly)},
			v1.PodQOSBurstable, host.CgroupResources{CPUShares: 2048, CPUQuota: 400_000, MemoryBytes: 5 << 30}},
		{"overhead", v1.PodSpec{
			Overhead:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("1Gi")},
			Containers: containers(amounts("1/1Gi", "1/1Gi")),
		}, v1.PodQOSGuaranteed, host.CgroupResources{CPUShares: 2048, CPUQuota: 200_000, MemoryBytes: 2 << 30}},
		{"the least quota", v1.PodSpec{Containers: containers(amounts("1m/1Gi", "1m/1Gi"))},
			v1.PodQOSGuaranteed, host.CgroupResources{CPUShares: 2, CPUQuota: 1000, MemoryBytes: 1 << 30}},
	} {
		pod := &v1.Pod{Spec: tt.spec}
		pod.UID = "u"
		if diff := cmp.Diff(host.PodCgroup{UID: "u", Class: tt.class, Resources: tt.want}, cgroupFor(pod, 0)); diff != "" {
			t.Errorf("%s: %s", tt.desc, diff)
		}
	}
}

func TestCgroupOfAPodLimitsProcessesAndHugePages(t *testing.T) {
	pages := func(list ...string) v1.ResourceRequirements {
		limits := v1.ResourceList{}
		for i := 0; i < len(list); i += 2 {
			limits[v1.ResourceName("hugepages-"+list[i])] = resource.MustParse(list[i+1])
		}
		return v1.ResourceRequirements{Limits: limits, Requests: limits}
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Resources: pages("2Mi", "64Mi")}},
		Containers:     []v1.Container{{Resources: pages("2Mi", "16Mi", "1Gi", "2Gi")}, {Resources: pages("2Mi", "8Mi")}, {}},
	}}
	pod.UID = "u"
	want := host.CgroupResources{CPUShares: 2, PIDs: 512, HugePages: []host.HugePageLimit{
		{PageBytes: 2 << 20, Bytes: 64 << 20}, {PageBytes: 1 << 30, Bytes: 2 << 30},
	}}
	if diff := cmp.Diff(want, cgroupFor(pod, 512).Resources); diff != "" {
		t.Error(diff)
	}
}

func TestWidestHasRoomForBoth(t *testing.T) {
	small, large := host.CgroupResources{CPUShares: 2, CPUQuota: 1000, MemoryBytes: 1 << 30}, host.CgroupResources{CPUShares: 9, CPUQuota: 3000, MemoryBytes: 1 << 20}
	want := host.CgroupResources{CPUShares: 9, CPUQuota: 3000, MemoryBytes: 1 << 30}
	if got := widest(small, large); !got.Equal(want) {
		t.Errorf("got %+v", got)
	}
	if got := widest(small, host.CgroupResources{CPUShares: 2}); !got.Equal(host.CgroupResources{CPUShares: 2}) {
		t.Errorf("no limit is the widest, got %+v", got)
	}
}

// fakeCgroups notes what it is asked, in order with what the resizer is asked.
type fakeCgroups struct {
	made []host.CgroupResources
	// err is of every call, or of those that set the memory limit only.
	err   error
	limit int64
}

func (f *fakeCgroups) EnsurePodCgroup(_ context.Context, pod host.PodCgroup) (string, error) {
	if f.err != nil && (f.limit == 0 || f.limit == pod.Resources.MemoryBytes) {
		return "", f.err
	}
	f.made = append(f.made, pod.Resources)
	return "/tombolo/kubepods/pod" + string(pod.UID), nil
}

func (f *fakeCgroups) take() []host.CgroupResources {
	made := f.made
	f.made = nil
	return made
}

func grouping(t *testing.T, body func(t *testing.T, b *bench, f *fakeCgroups)) {
	t.Helper()
	resizing(t, "web", func(t *testing.T, b *bench, _ *fakeResizer) {
		b.pod.Spec.Containers[0].Resources = amounts("1/1Gi", "1/1Gi")
		f := &fakeCgroups{}
		b.syncer.opts.Cgroups = f
		body(t, b, f)
	})
}

func wantMade(t *testing.T, f *fakeCgroups, want ...host.CgroupResources) {
	t.Helper()
	if diff := cmp.Diff(want, f.take()); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
}

func TestPodCgroupIsMadeOnceBeforeTheSandboxThatGoesIntoIt(t *testing.T) {
	grouping(t, func(t *testing.T, b *bench, f *fakeCgroups) {
		b.mustSync(t)
		want := host.CgroupResources{CPUShares: 1024, CPUQuota: 100_000, MemoryBytes: 1 << 30}
		wantMade(t, f, want)
		sandboxes := b.rt.Sandboxes(b.pod.UID)
		if len(sandboxes) != 1 || sandboxes[0].Config.GetLinux().GetCgroupParent() != "/tombolo/kubepods/pod"+string(b.pod.UID) {
			t.Errorf("sandboxes %+v", sandboxes)
		}
		b.mustSync(t)
		wantMade(t, f)
	})
}

func TestPodCgroupGrowsBeforeItsContainersAndShrinksAfterThem(t *testing.T) {
	grouping(t, func(t *testing.T, b *bench, f *fakeCgroups) {
		b.mustSync(t)
		f.take()
		b.pod.Spec.Containers[0].Resources = amounts("2/512Mi", "2/512Mi")
		b.mustSync(t)
		wantMade(t, f, host.CgroupResources{CPUShares: 2048, CPUQuota: 200_000, MemoryBytes: 1 << 30},
			host.CgroupResources{CPUShares: 2048, CPUQuota: 200_000, MemoryBytes: 512 << 20})
	})
}

func TestPodCgroupStaysWideWhileItsContainersCannotShrink(t *testing.T) {
	grouping(t, func(t *testing.T, b *bench, f *fakeCgroups) {
		b.mustSync(t)
		f.take()
		resizer, ok := b.syncer.opts.Resizer.(*fakeResizer)
		if !ok {
			t.Fatal("no fake resizer")
		}
		resizer.err = errors.New("in use")
		b.pod.Spec.Containers[0].Resources = amounts("1/512Mi", "1/512Mi")
		if r := b.sync(t); !errors.Is(r.Err, resizer.err) {
			t.Errorf("got %v", r.Err)
		}
		wantMade(t, f, host.CgroupResources{CPUShares: 1024, CPUQuota: 100_000, MemoryBytes: 1 << 30})
	})
}

func TestPodCgroupOfAnEarlierProcessIsOpenedBeforeItIsSet(t *testing.T) {
	grouping(t, func(t *testing.T, b *bench, f *fakeCgroups) {
		b.mustSync(t)
		f.take()
		resizer := b.syncer.opts.Resizer
		b.restart()
		b.syncer.opts.Cgroups, b.syncer.opts.Resizer = f, resizer
		b.mustSync(t)
		wantMade(t, f, host.CgroupResources{CPUShares: 1024}, host.CgroupResources{CPUShares: 1024, CPUQuota: 100_000, MemoryBytes: 1 << 30})
	})
}

func TestPodWhoseCgroupCannotBeMadeIsNotStarted(t *testing.T) {
	grouping(t, func(t *testing.T, b *bench, f *fakeCgroups) {
		f.err = errors.New("read-only file system")
		if r := b.sync(t); !errors.Is(r.Err, f.err) {
			t.Errorf("got %v", r.Err)
		}
		b.wantRecords(t)
		b.wantEvents(t, "FailedCreatePodContainer: unable to ensure pod container exists: read-only file system")
		f.err = fmt.Errorf("the link: %w", errdefs.ErrUnavailable)
		if r := b.sync(t); !errdefs.IsUnavailable(r.Err) {
			t.Errorf("got %v", r.Err)
		}
		b.wantEvents(t) // of a lost link nothing is told
		f.err = errdefs.ErrNotImplemented
		b.mustSync(t)
		b.wantRecords(t, "web/0 running")
	})
}

// wantTold compares what the runtime was told of the pod's only sandbox: shares, quota and memory in MiB.
func wantTold(t *testing.T, b *bench, want ...string) {
	t.Helper()
	var got []string
	for _, r := range b.rt.Sandboxes(b.pod.UID)[0].Told {
		l := r.GetResources()
		got = append(got, fmt.Sprintf("%d %d %d+%d", l.GetCpuShares(), l.GetCpuQuota(), l.GetMemoryLimitInBytes()>>20, r.GetOverhead().GetMemoryLimitInBytes()>>20))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the runtime was told (-want +got):\n%s", diff)
	}
}

func TestRuntimeIsToldOfEachStepOfAResize(t *testing.T) {
	grouping(t, func(t *testing.T, b *bench, _ *fakeCgroups) {
		b.pod.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("500m"), v1.ResourceMemory: resource.MustParse("64Mi")}
		b.mustSync(t)
		b.mustSync(t)
		wantTold(t, b)
		b.pod.Spec.Containers[0].Resources = amounts("2/512Mi", "2/512Mi")
		b.mustSync(t)
		wantTold(t, b, "2048 200000 1024+64", "2048 200000 512+64")
		b.mustSync(t)
		wantTold(t, b, "2048 200000 1024+64", "2048 200000 512+64")
	})
}

func TestResizeThatTheRuntimeRefusesIsNotDoneAndTold(t *testing.T) {
	grouping(t, func(t *testing.T, b *bench, f *fakeCgroups) {
		b.mustSync(t)
		f.take()
		b.rt.Inject(fakecri.Fault{Method: "UpdatePodSandboxResources", Err: fmt.Errorf("no room: %w", errdefs.ErrResourceExhausted), Times: 1})
		b.pod.Spec.Containers[0].Resources = amounts("2/2Gi", "2/2Gi")
		if r := b.sync(t); !errdefs.IsResourceExhausted(r.Err) {
			t.Errorf("got %v", r.Err)
		}
		wantMade(t, f)
		resizer, ok := b.syncer.opts.Resizer.(*fakeResizer)
		if !ok || len(resizer.failed) != 1 || len(resizer.applied) != 0 {
			t.Errorf("resizer %+v", resizer)
		}
		b.mustSync(t)
		wantTold(t, b, "2048 200000 2048+0")
	})
}

func TestRuntimeThatHasNoUseForResourcesOfSandboxesIsNoFailure(t *testing.T) {
	for _, err := range []error{errdefs.ErrNotImplemented, errors.New("not implemented yet")} {
		grouping(t, func(t *testing.T, b *bench, f *fakeCgroups) {
			b.mustSync(t)
			f.take()
			b.rt.Inject(fakecri.Fault{Method: "UpdatePodSandboxResources", Err: err})
			b.pod.Spec.Containers[0].Resources = amounts("2/2Gi", "2/2Gi")
			b.mustSync(t)
			wantMade(t, f, host.CgroupResources{CPUShares: 2048, CPUQuota: 200_000, MemoryBytes: 2 << 30})
		})
	}
}

func TestRuntimeIsToldOfAStepThatCouldNotBeDone(t *testing.T) {
	grouping(t, func(t *testing.T, b *bench, f *fakeCgroups) {
		b.mustSync(t)
		f.err, f.limit = errors.New("read-only file system"), 2<<30
		b.pod.Spec.Containers[0].Resources = amounts("2/2Gi", "2/2Gi")
		if r := b.sync(t); !errors.Is(r.Err, f.err) {
			t.Errorf("got %v", r.Err)
		}
		wantTold(t, b, "2048 200000 2048+0", "1024 100000 1024+0")
	})
}

func TestRuntimeIsToldOnceByTheNextProcess(t *testing.T) {
	grouping(t, func(t *testing.T, b *bench, f *fakeCgroups) {
		b.mustSync(t)
		resizer := b.syncer.opts.Resizer
		b.restart()
		b.syncer.opts.Cgroups, b.syncer.opts.Resizer = f, resizer
		b.pod.Spec.Containers[0].Resources = amounts("2/2Gi", "2/2Gi")
		b.mustSync(t)
		b.mustSync(t)
		wantTold(t, b, "2048 200000 2048+0")
	})
}
