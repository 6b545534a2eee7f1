// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// setUp makes volumes of one pod. A broken volume does not keep the others from being made.
type setUp struct {
	*Manager
	pod     *v1.Pod
	places  map[string]place
	written map[string]digest
	// anew says that nothing that was made before counts.
	anew   bool
	causes []*SetUpError
}

func (m *Manager) newSetUp(pod *v1.Pod, before state) *setUp {
	s := &setUp{Manager: m, pod: pod, places: map[string]place{}, written: map[string]digest{}}
	maps.Copy(s.places, before.places)
	maps.Copy(s.written, before.written)
	return s
}

// run makes the mounted volumes that are wanted. An error says that the host could not be asked, or that ctx ended.
func (s *setUp) run(ctx context.Context, wanted func(*v1.Volume) bool) error {
	for i := range s.pod.Spec.Volumes {
		v := &s.pod.Spec.Volumes[i]
		if mounted, mapped := usesOf(&s.pod.Spec, v.Name); !mounted && !mapped || v.Image != nil || !wanted(v) {
			continue
		}
		err := s.one(ctx, v)
		switch {
		case err == nil:
		case ctx.Err() != nil || cri.OutcomeUnknown(err):
			return fmt.Errorf("making volume %q of pod \"%s/%s\" ready: %w", v.Name, s.pod.Namespace, s.pod.Name, err)
		default:
			s.causes = append(s.causes, &SetUpError{Volume: v.Name, Err: err})
		}
	}
	return nil
}

func (s *setUp) one(ctx context.Context, v *v1.Volume) (err error) {
	if isFileSet(v) {
		return s.files(ctx, v)
	}
	var at place
	if _, known := s.places[v.Name]; known && !s.anew && claimOf(s.pod, v) != "" {
		return nil // what has become of the claim since does not concern a pod that has the volume
	}
	if claimOf(s.pod, v) != "" {
		at, err = s.claimed(ctx, v)
	} else {
		var want host.Volume
		if want, err = s.directory(v); err == nil {
			var made host.ReadyVolume
			made, err = s.opts.Dirs.EnsureVolume(ctx, s.pod.UID, want)
			at.path = made.Path
		}
	}
	if err != nil {
		return err
	}
	s.places[v.Name] = at
	return nil
}

// directory says what the host has to make of a volume that is a directory of its own or one that exists.
func (s *setUp) directory(v *v1.Volume) (host.Volume, error) {
	out := host.Volume{Name: v.Name}
	switch {
	case v.EmptyDir != nil:
		out.EmptyDir, out.FSGroup = true, fsGroup(s.pod)
		if v.EmptyDir.Mode != nil {
			mode := uint32(*v.EmptyDir.Mode) //nolint:gosec // the API allows permission bits only
			out.Mode = &mode
		}
		switch v.EmptyDir.Medium {
		case v1.StorageMediumDefault:
		case v1.StorageMediumMemory:
			out.Memory, out.SizeBytes = true, memorySize(s.pod, v.EmptyDir.SizeLimit, s.opts.Allocatable())
		default:
			size, err := pageSize(s.pod, v.EmptyDir.Medium)
			if err != nil {
				return out, err
			}
			out.HugePageBytes, out.SizeBytes = size, quantity(v.EmptyDir.SizeLimit)
		}
	case v.HostPath != nil:
		out.HostPath = v.HostPath.Path
		if v.HostPath.Type != nil {
			out.HostPathType = string(*v.HostPath.Type)
		}
	default:
		return out, fmt.Errorf("volumes of this kind are not supported: %w", errdefs.ErrNotImplemented)
	}
	return out, nil
}

// files gives the host the files of a volume unless it has them.
func (s *setUp) files(ctx context.Context, v *v1.Volume) error {
	set, err := s.fileSet(ctx, v)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errors.New(err.Error()) // whatever class it is of, it says nothing of the host
	}
	now := digestOf(set)
	if _, known := s.places[v.Name]; known && s.written[v.Name] == now {
		return nil
	}
	delete(s.written, v.Name) // if the answer is lost, nobody knows what the host has
	path, err := s.opts.Files.WriteFiles(ctx, s.pod.UID, set)
	if err != nil {
		return err
	}
	s.places[v.Name], s.written[v.Name] = place{path: path, readOnly: true}, now
	return nil
}

// err returns what is wrong with the volumes, which has been so since then.
func (s *setUp) err(since time.Time) error {
	if len(s.causes) == 0 {
		return nil
	}
	late := !since.IsZero() && s.opts.Clock.Since(since) >= Timeout
	return &UnmountedError{Causes: s.causes, TimedOut: late}
}
