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

// anyRepository stands in a record for the repositories that it does not name.
const anyRepository = "*"

// parseRecord reads a record. One that cannot be read is one that lets nobody in without asking the registry, under no name.
func parseRecord(content []byte) pulledRecord {
	record := pulledRecord{}
	if json.Unmarshal(content, &record) != nil || record == nil {
		return pulledRecord{anyRepository: {}}
	}
	return record
}

// of returns who may use the image under the name of a repository, if it was pulled under that.
func (r pulledRecord) of(repository string) (known access, pulled bool) {
	if known, pulled = r[repository]; !pulled {
		known, pulled = r[anyRepository]
	}
	return known, pulled
}

func (r pulledRecord) encode(imageRef string) (host.ImageRecord, error) {
	content, err := json.Marshal(r)
	return host.ImageRecord{Key: pulledPrefix + imageRef, Content: content}, err
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

// recordOf finds the record of an image by its reference, nil if there is none.
func recordOf(all []host.ImageRecord, imageRef string) pulledRecord {
	for _, r := range all {
		if r.Key == pulledPrefix+imageRef {
			return parseRecord(r.Content)
		}
	}
	return nil
}

// intended are the names of images that are being pulled with credentials, or were when a process died.
func intended(all []host.ImageRecord) []string {
	var out []string
	for _, r := range all {
		if name, ok := strings.CutPrefix(r.Key, pullingPrefix); ok {
			out = append(out, normalized(name)) // as an older version wrote it
		}
	}
	return out
}

// brings says whether a pull of one name gives an image the other: its own, or a digest in its repository.
func brings(pulled, name string) bool {
	return pulled == name || strings.Contains(name, "@") && repositoryOf(pulled) == repositoryOf(name)
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
