// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import "context"

// Sizes in bytes of what an image record may have, and how many of them a host keeps: all together fit into one answer.
const (
	MaxImageRecordKey     = 2 << 10
	MaxImageRecordContent = 8 << 10
	MaxImageRecords       = 1000
)

// ImageRecord is what a node noted of an image. The host does not look into it.
type ImageRecord struct {
	Key     string
	Content []byte
}

// ImageRecords keeps what nodes note of the images that they pulled, so that another process of a node, and other nodes on the
// same host, know it. It holds nothing secret.
type ImageRecords interface {
	// ListImageRecords returns all records, ordered by key.
	ListImageRecords(ctx context.Context) ([]ImageRecord, error)
	// PutImageRecord keeps a record in place of one of the same key; without content it removes that. It is on disk when it
	// returns. ResourceExhausted: there are too many.
	PutImageRecord(ctx context.Context, record ImageRecord) error
}
