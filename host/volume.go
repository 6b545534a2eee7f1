// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// Volume says what EnsureVolume shall make ready: exactly one of EmptyDir, HostPath and Local is set.
type Volume struct {
	Name string
	// EmptyDir is a directory that lives as long as the pod, on disk unless Memory is set.
	EmptyDir bool
	// Memory makes the directory a memory-backed file system of at most SizeBytes, or of the kernel's default if that is
	// zero. One that exists keeps its size.
	Memory    bool
	SizeBytes int64
	// HugePageBytes makes the file system in memory one of huge pages of that size. FailedPrecondition if the host has none.
	HugePageBytes int64
	// Mode is the mode of the directory when it is made; nil is 0777, with the sticky bit in memory.
	Mode *uint32
	// FSGroup is the group that owns the directory when it is made; nil leaves it to the host's own.
	FSGroup *int64
	// HostPath is a path of the host that exists or is made according to HostPathType, the API's names ("",
	// DirectoryOrCreate, Directory, FileOrCreate, File, Socket, CharDevice, BlockDevice). A mismatch is FailedPrecondition.
	HostPath     string
	HostPathType string
	// Local is what a PersistentVolume names on the host.
	Local *LocalVolume
	// NoLinks says that the path of HostPath or Local leads through no symbolic link, so that one that is found there was put there since
	// and must not be followed. It does not cross a link to the host.
	NoLinks bool
}

// LocalVolume is a directory, or a whole disk, that exists on the host. If it is anything else, that is FailedPrecondition.
type LocalVolume struct {
	Path string
	// Block says that it must be a block device.
	Block bool
	// FSGroup is the group that shall own everything in the directory, and be able to read and write it; nil changes nothing. That is
	// seen to once for each pod, and not at all while another pod uses the directory. It goes on with the next call if one is
	// interrupted.
	FSGroup *int64
	// OnRootMismatch leaves everything as it is if the directory itself belongs to the group already.
	OnRootMismatch bool
	// Sole says that it is for one pod at a time: FailedPrecondition as long as another pod uses the directory.
	Sole bool
	// MountOptions are those that the directory is mounted with for the pod, in the names of mount(8); without any it is not mounted. One
	// that the host does not know is FailedPrecondition.
	MountOptions []string
}

// ReadyVolume is a volume that was made ready.
type ReadyVolume struct {
	// Path is where it is on the host.
	Path string
	// OtherGroup is the group of a directory that was not given to FSGroup because another pod uses it; nil if it is that group, or if it
	// was given. Only the call tells that finds out.
	OtherGroup *int64
	// Mounted says that it was mounted with the options that were asked for. A host that knows none does not say so.
	Mounted bool
}

// VolumeKind is what a volume below the pod's directory is, as in the name of its directory there.
type VolumeKind string

// The kinds of volumes below a pod's directory. The content of all but emptyDirs is a FileSet, which is on disk if it is
// that of a ConfigMap and in memory if it is any other.
const (
	EmptyDirVolume    VolumeKind = "empty-dir"
	ConfigMapVolume   VolumeKind = "configmap"
	SecretVolume      VolumeKind = "secret"
	DownwardAPIVolume VolumeKind = "downward-api"
	ProjectedVolume   VolumeKind = "projected"
)

// Limits of a FileSet. The objects that files are made of have at most 1 MiB each.
const (
	MaxFileSetBytes = 12 << 20
	MaxFileSetFiles = 20_000
)

// FileSet is the whole content of a volume. Its files are never logged.
type FileSet struct {
	Volume string
	Kind   VolumeKind
	// SizeBytes limits the memory-backed file system when it is made; zero is the kernel's default.
	SizeBytes int64
	Files     []File
	// FSGroup owns all files and directories, which it can read, and directories hand it on; nil leaves them to the host's own.
	FSGroup *int64
	// MountPoints are directories for what else a container mounts below the volume, relative to it.
	MountPoints []string
}

// File is one file of a FileSet.
type File struct {
	// Path is relative to the volume, without "..".
	Path string
	Data []byte
	// Mode has permission bits only.
	Mode uint32
	// User owns the file; nil is the host's own.
	User *int64
}

// SubPath names a part of a volume that is mounted into a container.
type SubPath struct {
	// Volume and Kind name a volume below the pod's directory; without a Kind the volume is the directory HostPath.
	Volume   string
	Kind     VolumeKind
	HostPath string
	// NoLinks is that of Volume, for HostPath.
	NoLinks bool
	// Path is relative to the volume, without "..".
	Path string
	// Container and Mount tell whose mount it is: Mount is the place among the container's mounts.
	Container string
	Mount     int
}

// PinnedPath is a path of the host that a container mounts.
type PinnedPath struct {
	// Path leads through no symbolic link: one that is found there is not followed.
	Path string
	// Make makes a directory if nothing is there, as a runtime does.
	Make bool
	// Container and Mount tell whose mount it is: Mount is the place among the container's mounts.
	Container string
	Mount     int
}

// MaxVolumeFileBytes is the size of the largest file that ReadVolumeFile reads.
const MaxVolumeFileBytes = 1 << 20

// Volumes fills volumes and finds parts of them.
type Volumes interface {
	// WriteFiles makes the volume have exactly those files and returns its path on the host. A reader of the volume sees all
	// files as they were or all as they are now. It repairs what an interrupted call left.
	WriteFiles(ctx context.Context, uid types.UID, set FileSet) (path string, err error)
	// EnsureSubPath returns a path on the host that is that part of the volume, whatever happens to names in the volume later.
	// What is missing is made a directory with the mode of the volume's; if it cannot be made, or would be outside the volume, that is
	// Aborted. A part that exists outside the volume is PermissionDenied. A second call looks anew.
	EnsureSubPath(ctx context.Context, uid types.UID, part SubPath) (path string, err error)
	// ReadVolumeFile returns the content of a regular file of a volume below the pod's directory. A missing file is NotFound, one
	// outside the volume PermissionDenied; another kind of file, or a larger one, is FailedPrecondition.
	ReadVolumeFile(ctx context.Context, uid types.UID, file VolumeFile) ([]byte, error)
}

// VolumeFile names a file of a volume below the pod's directory.
type VolumeFile struct {
	Volume string
	Kind   VolumeKind
	// Path is relative to the volume, without "..".
	Path string
}
