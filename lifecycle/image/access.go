// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
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
	// pulling counts the pulls with credentials that are under way, by image name.
	pulling map[string]int
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

func (a *accesses) underWay(image string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pulling[image] > 0
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
func (m *Manager) mayUse(ctx context.Context, r *request, imageRef string, records []host.ImageRecord) (bool, error) {
	pulled, pulling := recordsOf(records, imageRef, r.image)
	if pulled == nil {
		return !pulling && !m.access.underWay(r.image), nil
	}
	repository := repositoryOf(r.image)
	known := pulled[repository]
	if known.Anyone || len(known.Secrets) == 0 {
		return known.Anyone, nil
	}
	credentials, err := m.credentials(ctx, r)
	if err != nil {
		return false, err
	}
	for _, c := range credentials {
		if pulled.has(repository, c) {
			return true, nil
		}
		if m.access.knows(imageRef, repository, c) {
			m.remember(ctx, r, imageRef, &c)
			return true, nil
		}
	}
	return false, nil
}

// intend notes, before a pull with credentials, that the image will not be for everyone.
func (m *Manager) intend(ctx context.Context, r *request) error {
	m.access.begin(r.image)
	err := m.records.PutImageRecord(ctx, host.ImageRecord{Key: pullingPrefix + r.image, Content: []byte("{}")})
	if err != nil {
		m.access.end(r.image)
		return fmt.Errorf("recording that image %q is about to be pulled with credentials: %w", r.named, err)
	}
	return nil
}

// settle ends what intend began. Without a record of a pull that succeeded the intention stays, so that the image is not
// taken for everyone's.
func (m *Manager) settle(ctx context.Context, r *request, keep bool) {
	if left := m.access.end(r.image); left > 0 || keep {
		return
	}
	m.forgetRecord(ctx, pullingPrefix+r.image)
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
	pulled, pulling := recordsOf(all, imageRef, r.image)
	if used == nil && pulling && !m.access.underWay(r.image) {
		m.forgetRecord(ctx, pullingPrefix+r.image) // of a process that died: everyone can have it
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
