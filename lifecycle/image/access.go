// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/image/keyring"
)

// Records keeps notes on the host, where they outlive this process. Errors are classes; Unavailable means that no answer
// came.
type Records interface {
	ListImageRecords(ctx context.Context) ([]host.ImageRecord, error)
	// PutImageRecord replaces the record of that key; without content it removes it.
	PutImageRecord(ctx context.Context, record host.ImageRecord) error
}

var _ Records = host.ImageRecords(nil)

// accesses remembers, beside the records, what must not be written down.
type accesses struct {
	// writing is held while a record is read and changed.
	writing sync.Mutex

	mu sync.Mutex
	// pulling counts the pulls with credentials that are under way, by image name. begun counts all there ever were.
	pulling map[string]int
	begun   uint64
	// hashes are of the credentials that a registry accepted, by image reference and repository.
	hashes map[string]map[string]bool
}

func newAccesses() *accesses {
	return &accesses{pulling: map[string]int{}, hashes: map[string]map[string]bool{}}
}

func (a *accesses) begin(image string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pulling[image]++
	a.begun++
}

// pulls returns how many pulls with credentials have begun.
func (a *accesses) pulls() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.begun
}

// end returns how many pulls of the image are still under way.
func (a *accesses) end(image string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pulling[image]--
	left := a.pulling[image]
	if left == 0 {
		delete(a.pulling, image)
	}
	return left
}

// underWay are the names of images that are being pulled with credentials.
func (a *accesses) underWay() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.pulling))
}

func (a *accesses) accepted(imageRef, repository string, c keyring.Credential) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := imageRef + " " + repository
	if a.hashes[key] == nil {
		a.hashes[key] = map[string]bool{}
	}
	a.hashes[key][c.Hash()] = true
}

func (a *accesses) knows(imageRef, repository string, c keyring.Credential) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.hashes[imageRef+" "+repository][c.Hash()]
}

// mayUse says whether the pod may use an image that is present without asking its registry. What came onto the machine by
// other ways is for everyone, what was pulled with credentials for those who have them: the secret that they are from, or
// another one that says the same.
func (m *Manager) mayUse(ctx context.Context, r *request, image *runtimeapi.Image, records []host.ImageRecord) (bool, error) {
	imageRef, repository := image.GetId(), repositoryOf(r.image)
	known, pulled := recordOf(records, imageRef).of(repository)
	if !pulled {
		return m.wasLoaded(r, image, records), nil
	}
	if known.Anyone || len(known.Secrets) == 0 {
		return known.Anyone, nil
	}
	credentials, err := m.credentials(ctx, r)
	if err != nil {
		return false, err
	}
	for _, c := range credentials {
		if slices.Contains(known.Secrets, c.Source) {
			return true, nil
		}
		if m.access.knows(imageRef, repository, c) {
			m.remember(ctx, r, imageRef, &c)
			return true, nil
		}
	}
	return false, nil
}

// wasLoaded says whether an image without a record for its name came by other ways than a pull with credentials: it had the
// name before, or was pulled by nobody in particular. That the same content was pulled with credentials under another name
// does not take it from those who had it; it is not found by its id then, only by the name.
func (m *Manager) wasLoaded(r *request, image *runtimeapi.Image, records []host.ImageRecord) bool {
	asked, names := normalized(r.image), slices.Concat(image.GetRepoTags(), image.GetRepoDigests())
	pulling := slices.Concat(intended(records), m.access.underWay())
	arrives := func(name string) bool {
		return slices.ContainsFunc(pulling, func(p string) bool { return brings(p, name) })
	}
	switch {
	case arrives(asked):
		return false
	case slices.Contains(names, asked):
		return true
	default:
		return recordOf(records, image.GetId()) == nil && !slices.ContainsFunc(names, arrives)
	}
}

// intend notes, before a pull with credentials, that the image will not be for everyone.
func (m *Manager) intend(ctx context.Context, r *request) error {
	name := normalized(r.image)
	m.access.begin(name)
	err := m.records.PutImageRecord(ctx, host.ImageRecord{Key: pullingPrefix + name, Content: []byte("{}")})
	if err != nil {
		m.access.end(name)
		return fmt.Errorf("recording that image %q is about to be pulled with credentials: %w", r.named, err)
	}
	return nil
}

// settle ends what intend began. Without a record of a pull that succeeded the intention stays, so that the image is not
// taken for everyone's.
func (m *Manager) settle(ctx context.Context, r *request, keep bool) {
	name := normalized(r.image)
	if left := m.access.end(name); left > 0 || keep {
		return
	}
	m.forgetRecord(ctx, pullingPrefix+name)
}

func (m *Manager) forgetRecord(ctx context.Context, key string) {
	if err := m.records.PutImageRecord(ctx, host.ImageRecord{Key: key}); err != nil {
		m.log.Warn("An image record cannot be removed; pods are checked once more for it", "key", key, "error", err)
	}
}

// remember notes that a pull of the image with the credential, nil for none, succeeded. It returns false if that could not be
// written.
func (m *Manager) remember(ctx context.Context, r *request, imageRef string, used *keyring.Credential) bool {
	repository := repositoryOf(r.image)
	if used != nil {
		m.access.accepted(imageRef, repository, *used)
	}
	m.access.writing.Lock()
	defer m.access.writing.Unlock()
	err := m.addRecord(ctx, r, imageRef, repository, used)
	if err != nil {
		m.log.Warn("It cannot be recorded who may use an image; pods have to pull it again", "image", r.named, "error", err)
	}
	return err == nil
}

func (m *Manager) addRecord(ctx context.Context, r *request, imageRef, repository string, used *keyring.Credential) error {
	all, err := m.records.ListImageRecords(ctx)
	if err != nil {
		return err
	}
	pulled, name := recordOf(all, imageRef), normalized(r.image)
	if used == nil && slices.Contains(intended(all), name) && !slices.Contains(m.access.underWay(), name) {
		m.forgetRecord(ctx, pullingPrefix+name) // of a process that died: everyone can have it
	}
	if pulled == nil {
		if used == nil {
			return nil // as if it had always been there
		}
		m.removeStale(ctx, all)
		pulled = pulledRecord{}
	}
	if !pulled.add(repository, used) {
		return nil
	}
	record, err := pulled.encode(imageRef)
	if err != nil {
		return err
	}
	return m.records.PutImageRecord(ctx, record)
}

// removeStale removes the records of images that are gone, as far as it can.
func (m *Manager) removeStale(ctx context.Context, all []host.ImageRecord) {
	images, err := m.images.ListImages(ctx)
	if err != nil {
		return
	}
	for _, key := range stale(all, references(images)) {
		m.forgetRecord(ctx, key)
	}
}

func references(images []*runtimeapi.Image) map[string]bool {
	out := make(map[string]bool, len(images))
	for _, i := range images {
		out[i.GetId()] = true
	}
	return out
}
