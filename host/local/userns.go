// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/host"
)

const (
	// idRangeFile is the kubelet's name of the file in the directory of a pod.
	idRangeFile = "userns"
	idRangeMode = 0o600
)

// subordinateUsers are those whose subordinate ids are for pods: ours, or the kubelet's where that has none.
var subordinateUsers = []string{"tombolo", "kubelet"}

// idMappings is the content of that file, in the kubelet's form.
type idMappings struct {
	UIDs []idMapping `json:"uidMappings"`
	GIDs []idMapping `json:"gidMappings"`
}

type idMapping struct {
	HostID      uint32 `json:"hostId"`
	ContainerID uint32 `json:"containerId"`
	Length      uint32 `json:"length"`
}

// EnsureIDRange gives the pod the lowest range that no pod has. It goes with the pod's directory.
func (h *Host) EnsureIDRange(ctx context.Context, uid types.UID) (host.IDRange, error) {
	if err := checkUID(uid); err != nil {
		return host.IDRange{}, err
	}
	defer h.lockPod(uid)()
	h.idRanges.Lock()
	defer h.idRanges.Unlock()
	ids, err := h.readIDRange(uid)
	switch {
	case err == nil:
		return ids, nil
	case !errors.Is(err, fs.ErrNotExist):
		return host.IDRange{}, fmt.Errorf("reading which user ids pod %s has: %w", uid, err)
	}
	taken, err := h.takenIDs(ctx)
	if err != nil {
		return host.IDRange{}, err
	}
	all, err := h.podIDs()
	if err != nil {
		return host.IDRange{}, err
	}
	for first := uint64(all.First); first < uint64(all.First)+uint64(all.Length); first += host.IDsPerPod {
		ids := host.IDRange{First: uint32(first), Length: host.IDsPerPod} //nolint:gosec // the sum of both was checked
		if taken[ids.First] {
			continue
		}
		if err := h.writeIDRange(uid, ids); err != nil {
			return host.IDRange{}, fmt.Errorf("noting which user ids pod %s has: %w", uid, err)
		}
		return ids, nil
	}
	return host.IDRange{}, fmt.Errorf("all %d ranges of user ids are in use by pods: %w", all.Length/host.IDsPerPod, errdefs.ErrResourceExhausted)
}

// takenIDs are the first ids of the ranges that pods have.
func (h *Host) takenIDs(ctx context.Context) (map[uint32]bool, error) {
	pods, err := h.ListPods(ctx)
	if err != nil {
		return nil, err
	}
	taken := map[uint32]bool{}
	for _, uid := range pods {
		ids, err := h.readIDRange(uid)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil: // whatever range it has could be given away
			return nil, fmt.Errorf("reading which user ids pod %s has: %w", uid, err)
		default:
			taken[ids.First] = true
		}
	}
	return taken, nil
}

func idRangePath(uid types.UID) string { return filepath.Join(podDir(uid), idRangeFile) }

func (h *Host) readIDRange(uid types.UID) (host.IDRange, error) {
	content, err := h.root.ReadFile(idRangePath(uid))
	if err != nil {
		return host.IDRange{}, err
	}
	return parseIDRange(content)
}

// parseIDRange reads a range. There is one for users and groups alike, and it begins with root.
func parseIDRange(content []byte) (host.IDRange, error) {
	var mappings idMappings
	if err := json.Unmarshal(content, &mappings); err != nil {
		return host.IDRange{}, err
	}
	if len(mappings.UIDs) != 1 || len(mappings.GIDs) != 1 || mappings.UIDs[0] != mappings.GIDs[0] || mappings.UIDs[0].ContainerID != 0 {
		return host.IDRange{}, errors.New("it has not one mapping of users and groups alike that begins with 0")
	}
	ids := host.IDRange{First: mappings.UIDs[0].HostID, Length: mappings.UIDs[0].Length}
	return ids, checkIDs(ids)
}

// checkIDs wants whole ranges that leave out those of the machine and the last one, in which there is an id that none is.
func checkIDs(ids host.IDRange) error {
	end := uint64(ids.First) + uint64(ids.Length)
	switch {
	case ids.First < host.IDsPerPod || ids.First%host.IDsPerPod != 0:
		return fmt.Errorf("the first id %d is not a multiple of %d", ids.First, host.IDsPerPod)
	case ids.Length == 0 || ids.Length%host.IDsPerPod != 0:
		return fmt.Errorf("the number of ids %d is not a multiple of %d", ids.Length, host.IDsPerPod)
	case end > math.MaxUint32:
		return fmt.Errorf("the ids end at %d, beyond the kernel's last", end)
	}
	return nil
}

// writeIDRange makes a file that is complete and on disk, its name included.
func (h *Host) writeIDRange(uid types.UID, ids host.IDRange) error {
	dir := podDir(uid)
	if err := ensureDir(h.root, dir, privateDirMode); err != nil {
		return err
	}
	mapping := []idMapping{{HostID: ids.First, Length: ids.Length}}
	content, err := json.Marshal(idMappings{UIDs: mapping, GIDs: mapping})
	if err != nil {
		return err
	}
	unfinished := filepath.Join(dir, recordUnfinished+idRangeFile)
	file, err := h.root.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, idRangeMode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := h.root.Rename(unfinished, idRangePath(uid)); err != nil {
		return err
	}
	parent, err := h.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(parent.Sync(), parent.Close())
}

// podIDs are the ids that pods get theirs from: the subordinate ids of a user that stands for us, if there is one with some,
// else all but those of the machine, as with the kubelet.
func (h *Host) podIDs() (host.IDRange, error) {
	users, groups := h.read("etc/subuid"), h.read("etc/subgid")
	for _, name := range subordinateUsers {
		uids, gids := parseSubordinates(users, name), parseSubordinates(groups, name)
		if len(uids) == 0 && len(gids) == 0 {
			continue
		}
		if len(uids) != 1 || len(gids) != 1 || uids[0] != gids[0] {
			return host.IDRange{}, fmt.Errorf("/etc/subuid and /etc/subgid must give user %q one and the same range: %w", name, errdefs.ErrFailedPrecondition)
		}
		if err := checkIDs(uids[0]); err != nil {
			return host.IDRange{}, fmt.Errorf("/etc/subuid gives user %q ids that are of no use to pods: %w: %w", name, err, errdefs.ErrFailedPrecondition)
		}
		return uids[0], nil
	}
	return host.IDRange{First: host.IDsPerPod, Length: math.MaxUint32 - 2*host.IDsPerPod + 1}, nil
}
