// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/host"
)

const (
	// imagesDir holds a file for each image record, below the root directory.
	imagesDir = "images"
	// imageRecordMode keeps records to ourselves.
	imageRecordMode = 0o600
	recordSuffix    = ".json"
	// recordUnfinished begins the names of records that are being written.
	recordUnfinished = ".new-"
	// maxRecordFile is what a record needs as JSON, at most.
	maxRecordFile = 8*host.MaxImageRecordKey + 2*host.MaxImageRecordContent
)

// imageRecord is the content of a file.
type imageRecord struct {
	Key     string `json:"key"`
	Content []byte `json:"content"`
}

// ListImageRecords reads all records. A file that is none, which nobody but an administrator can have made, is passed over.
func (h *Host) ListImageRecords(ctx context.Context) ([]host.ImageRecord, error) {
	h.images.Lock()
	defer h.images.Unlock()
	names, err := h.imageRecordFiles()
	if err != nil {
		return nil, err
	}
	records := make([]host.ImageRecord, 0, len(names))
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		record, err := h.readImageRecord(name)
		if err != nil {
			h.logger.Warn("An image record cannot be read", "file", name, "error", err)
			continue
		}
		records = append(records, record)
	}
	slices.SortFunc(records, func(a, b host.ImageRecord) int { return cmp.Compare(a.Key, b.Key) })
	return records, nil
}

// PutImageRecord writes or removes a record.
func (h *Host) PutImageRecord(_ context.Context, record host.ImageRecord) error {
	if record.Key == "" || len(record.Key) > host.MaxImageRecordKey || len(record.Content) > host.MaxImageRecordContent {
		return fmt.Errorf("an image record with a key of %d and a content of %d bytes: at most %d and %d are kept, and the key must not be empty: %w",
			len(record.Key), len(record.Content), host.MaxImageRecordKey, host.MaxImageRecordContent, errdefs.ErrInvalidArgument)
	}
	h.images.Lock()
	defer h.images.Unlock()
	name := imageRecordFile(record.Key)
	if len(record.Content) == 0 {
		if err := h.root.Remove(filepath.Join(imagesDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing the image record %q: %w", record.Key, err)
		}
		return nil
	}
	if err := h.roomForImageRecord(name); err != nil {
		return err
	}
	if err := h.writeImageRecord(name, record); err != nil {
		return fmt.Errorf("writing the image record %q: %w", record.Key, err)
	}
	return nil
}

// imageRecordFile is the name of a record's file: keys have all kinds of signs, and names are short.
func imageRecordFile(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:]) + recordSuffix
}

// imageRecordFiles are the names of all files of records.
func (h *Host) imageRecordFiles() ([]string, error) {
	entries, err := fs.ReadDir(h.root.FS(), imagesDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing image records: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		if entry.Type().IsRegular() && strings.HasSuffix(entry.Name(), recordSuffix) && !strings.HasPrefix(entry.Name(), recordUnfinished) {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

func (h *Host) readImageRecord(name string) (host.ImageRecord, error) {
	file, err := h.root.Open(filepath.Join(imagesDir, name))
	if err != nil {
		return host.ImageRecord{}, err
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxRecordFile))
	if err != nil {
		return host.ImageRecord{}, err
	}
	var record imageRecord
	if err := json.Unmarshal(content, &record); err != nil {
		return host.ImageRecord{}, err
	}
	if imageRecordFile(record.Key) != name {
		return host.ImageRecord{}, fmt.Errorf("its key %q does not belong to its name", record.Key)
	}
	return host.ImageRecord(record), nil
}

// roomForImageRecord makes the directory and refuses a record too many.
func (h *Host) roomForImageRecord(name string) error {
	if err := ensureDir(h.root, imagesDir, privateDirMode); err != nil {
		return err
	}
	names, err := h.imageRecordFiles()
	if err != nil {
		return err
	}
	if len(names) >= host.MaxImageRecords && !slices.Contains(names, name) {
		return fmt.Errorf("there are %d image records: %w", len(names), errdefs.ErrResourceExhausted)
	}
	return nil
}

// writeImageRecord replaces the file by one that is complete and on disk.
func (h *Host) writeImageRecord(name string, record host.ImageRecord) error {
	content, err := json.Marshal(imageRecord(record))
	if err != nil {
		return err
	}
	unfinished := filepath.Join(imagesDir, recordUnfinished+name)
	file, err := h.root.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, imageRecordMode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return h.root.Rename(unfinished, filepath.Join(imagesDir, name))
}
