// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/image/keyring"
)

// Keys of the records on the host begin with what they are of: an image that was pulled with credentials, by the runtime's
// reference, or one that is being pulled so, by its name.
const (
	pulledPrefix  = "pulled "
	pullingPrefix = "pulling "
)

// maxSecrets bounds how many secrets a record has for one repository. Who has another one pulls again.
const maxSecrets = 20

// access says who may use an image under the name of one repository.
type access struct {
	// Anyone is so if it was pulled without credentials.
	Anyone bool `json:"anyone,omitempty"`
	// Secrets are those that a registry accepted.
	Secrets []keyring.Source `json:"secrets,omitempty"`
}

// pulledRecord is the content of a record of a pulled image, by repository.
type pulledRecord map[string]access

// parseRecord reads a record. One that cannot be read is one that lets nobody in without asking the registry.
func parseRecord(content []byte) pulledRecord {
	record := pulledRecord{}
	if json.Unmarshal(content, &record) != nil {
		return pulledRecord{}
	}
	return record
}

func (r pulledRecord) encode(imageRef string) (host.ImageRecord, error) {
	content, err := json.Marshal(r)
	return host.ImageRecord{Key: pulledPrefix + imageRef, Content: content}, err
}

// has says whether a registry accepted the credential's secret for the repository.
func (r pulledRecord) has(repository string, c keyring.Credential) bool {
	return slices.Contains(r[repository].Secrets, c.Source)
}

// add notes that the repository's image was pulled with the credential, nil for none. It returns false if that was known.
func (r pulledRecord) add(repository string, used *keyring.Credential) bool {
	a := r[repository]
	switch {
	case a.Anyone:
		return false
	case used == nil:
		a = access{Anyone: true}
	case slices.Contains(a.Secrets, used.Source):
		return false
	default:
		a.Secrets = append(slices.Clone(a.Secrets), used.Source)
		a.Secrets = a.Secrets[max(0, len(a.Secrets)-maxSecrets):]
	}
	r[repository] = a
	return true
}

// recordsOf finds what concerns one image: the record of its reference, nil if there is none, and whether its name is being
// pulled or was when a process died.
func recordsOf(all []host.ImageRecord, imageRef, image string) (pulled pulledRecord, pulling bool) {
	for _, r := range all {
		switch r.Key {
		case pulledPrefix + imageRef:
			pulled = parseRecord(r.Content)
		case pullingPrefix + image:
			pulling = true
		}
	}
	return pulled, pulling
}

// stale are the keys of records of images that are not present any more.
func stale(all []host.ImageRecord, present map[string]bool) []string {
	var out []string
	for _, r := range all {
		if ref, ok := strings.CutPrefix(r.Key, pulledPrefix); ok && !present[ref] {
			out = append(out, r.Key)
		}
	}
	return out
}
