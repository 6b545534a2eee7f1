// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

// Plugin makes PersistentVolumes of some types ready on the host. There is one for what exists there; one for the drivers of the
// Container Storage Interface would be another.
type Plugin interface {
	// Supports says whether the plugin is for the volume.
	Supports(pv *v1.PersistentVolume) bool
	// SetUp makes a volume ready for a pod, which calls it name, and returns its path on the host. It is called again until it
	// succeeds, after a restart of the process, and whenever the host may have lost what was made. An error that says that the host
	// did not answer keeps its class; the text of any other is for the user of the pod.
	SetUp(ctx context.Context, pod *v1.Pod, name string, pv *v1.PersistentVolume, readOnly bool) (path string, err error)
}

// existing are PersistentVolumes of types hostPath and local, which name what exists on the host.
type existing struct {
	dirs     Dirs
	recorder record.EventRecorder
	clock    clock.Clock
}

var _ Plugin = existing{}

// Supports says whether the volume names something on the host.
func (existing) Supports(pv *v1.PersistentVolume) bool {
	return pv.Spec.HostPath != nil || pv.Spec.Local != nil
}

// SetUp checks what is named, gives what is local to the group of the pod, and has it mounted if it has options.
func (e existing) SetUp(ctx context.Context, pod *v1.Pod, name string, pv *v1.PersistentVolume, readOnly bool) (string, error) {
	want := host.Volume{Name: name}
	switch block := ptr.Deref(pv.Spec.VolumeMode, v1.PersistentVolumeFilesystem) == v1.PersistentVolumeBlock; {
	case pv.Spec.Local != nil:
		want.Local = &host.LocalVolume{Path: pv.Spec.Local.Path, Block: block}
		if !block { // as with the kubelet, which has neither for disks
			want.Local.Sole, want.Local.MountOptions = forOnePod(pv), mountOptions(pv)
		}
		if security := pod.Spec.SecurityContext; !block && !readOnly && security != nil {
			want.Local.FSGroup = security.FSGroup
			want.Local.OnRootMismatch = ptr.Deref(security.FSGroupChangePolicy, v1.FSGroupChangeAlways) == v1.FSGroupChangeOnRootMismatch
		}
	case block:
		return "", fmt.Errorf("a volume of type hostPath is no block device; use one of type local")
	default:
		want.HostPath, want.HostPathType = pv.Spec.HostPath.Path, string(ptr.Deref(pv.Spec.HostPath.Type, v1.HostPathUnset))
	}
	var made host.ReadyVolume
	var err error
	if want.Local == nil || want.Local.FSGroup == nil {
		made, err = e.dirs.EnsureVolume(ctx, pod.UID, want)
	} else {
		made, err = e.give(ctx, pod, pv.Name, want)
	}
	if err == nil && want.Local != nil && len(want.Local.MountOptions) > 0 && !made.Mounted {
		err = errors.New("the host does not know mount options; upgrade the host, or remove them")
	}
	return made.Path, err
}

// forOnePod says whether a PersistentVolume is for one pod at a time: only if it has no other access mode, for nothing tells which one a pod
// wants.
func forOnePod(pv *v1.PersistentVolume) bool {
	return len(pv.Spec.AccessModes) == 1 && pv.Spec.AccessModes[0] == v1.ReadWriteOncePod
}

// mountOptions are those of a PersistentVolume, each once and in the kubelet's order. The older annotation takes precedence.
func mountOptions(pv *v1.PersistentVolume) []string {
	options := slices.Clone(pv.Spec.MountOptions)
	if older, ok := pv.Annotations[v1.MountOptionAnnotation]; ok {
		options = strings.Split(older, ",")
	}
	options = slices.DeleteFunc(options, func(o string) bool { return o == "" })
	slices.Sort(options)
	return slices.Compact(options)
}

// When an event tells that giving a volume to a group takes long, and how often after that: the kubelet's times.
const (
	firstNotice = 30 * time.Second
	nextNotice  = time.Minute
)

// give makes a volume ready that shall belong to the pod's group. The events are the kubelet's.
func (e existing) give(ctx context.Context, pod *v1.Pod, pv string, want host.Volume) (host.ReadyVolume, error) {
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { e.tell(pod, pv, done) })
	made, err := e.dirs.EnsureVolume(ctx, pod.UID, want)
	close(done)
	telling.Wait()
	if made.OtherGroup != nil {
		e.recorder.Eventf(pod, v1.EventTypeWarning, "AlreadyMountedVolume",
			"The requested fsGroup is %d, but the volume %s has GID %d. The volume may not be shareable.", *want.Local.FSGroup, pv, *made.OtherGroup)
	}
	return made, err
}

// tell says from time to time that a volume is still being given to a group, until done is closed.
func (e existing) tell(pod *v1.Pod, pv string, done <-chan struct{}) {
	timer := e.clock.NewTimer(firstNotice)
	defer timer.Stop()
	for {
		select {
		case <-done:
			return
		case <-timer.C():
		}
		e.recorder.Eventf(pod, v1.EventTypeWarning, "VolumePermissionChangeInProgress", "Setting volume ownership for %s/volumes/kubernetes.io~local-volume/%s "+
			"is taking longer than expected, consider using OnRootMismatch - "+
			"https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods", pod.UID, pv)
		timer.Reset(nextNotice)
	}
}

// sourceName is what the API calls the type of a PersistentVolume.
func sourceName(pv *v1.PersistentVolume) string {
	if csi := pv.Spec.CSI; csi != nil {
		return fmt.Sprintf("csi (driver %q)", csi.Driver)
	}
	source := reflect.ValueOf(pv.Spec.PersistentVolumeSource)
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "unknown"
}
