// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"

	"github.com/tombolo-dev/tombolo/host"
)

func TestImageRecordsAreKeptReplacedAndRemoved(t *testing.T) {
	h, _ := newTestHost(t)
	put := func(key, content string) {
		t.Helper()
		if err := h.PutImageRecord(t.Context(), host.ImageRecord{Key: key, Content: []byte(content)}); err != nil {
			t.Fatal(err)
		}
	}
	want := func(want ...host.ImageRecord) {
		t.Helper()
		got, err := h.ListImageRecords(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append([]host.ImageRecord{}, want...), got); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
	}
	want()
	put("../../etc/passwd", "1")
	put("sha256:b", "2")
	put("sha256:a", "{\x00}")
	put("sha256:b", "3")
	put("never there", "")
	records := []host.ImageRecord{
		{Key: "../../etc/passwd", Content: []byte("1")}, {Key: "sha256:a", Content: []byte("{\x00}")}, {Key: "sha256:b", Content: []byte("3")},
	}
	want(records...)
	put("sha256:a", "")
	want(records[0], records[2])
	entries, err := os.ReadDir(filepath.Join(h.rootDir, "images"))
	if err != nil || len(entries) != 2 {
		t.Errorf("files %v, %v", entries, err)
	}
	for _, e := range entries {
		if got := mode(t, filepath.Join(h.rootDir, "images", e.Name())); got != 0o600 {
			t.Errorf("%s has mode %v", e.Name(), got)
		}
	}
}

func TestBrokenImageRecordsDoNotHideTheOthers(t *testing.T) {
	h, _ := newTestHost(t)
	if err := h.PutImageRecord(t.Context(), host.ImageRecord{Key: "k", Content: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(h.rootDir, "images")
	put(t, filepath.Join(dir, imageRecordFile("torn")), `{"key":"to`)
	put(t, filepath.Join(dir, imageRecordFile("wrong")), `{"key":"another","content":"MQ=="}`)
	put(t, filepath.Join(dir, ".new-"+imageRecordFile("unfinished")), `{"key":"unfinished","content":"MQ=="}`)
	if err := os.Mkdir(filepath.Join(dir, "dir.json"), 0o750); err != nil {
		t.Fatal(err)
	}
	got, err := h.ListImageRecords(t.Context())
	if err != nil || len(got) != 1 || got[0].Key != "k" {
		t.Errorf("records %v, %v", got, err)
	}
}

func TestImageRecordsHaveLimits(t *testing.T) {
	h, _ := newTestHost(t)
	for _, r := range []host.ImageRecord{
		{Content: []byte("x")},
		{Key: strings.Repeat("k", host.MaxImageRecordKey+1), Content: []byte("x")},
		{Key: "k", Content: make([]byte, host.MaxImageRecordContent+1)},
	} {
		if err := h.PutImageRecord(t.Context(), r); !errdefs.IsInvalidArgument(err) {
			t.Errorf("a key of %d and a content of %d bytes: %v", len(r.Key), len(r.Content), err)
		}
	}
	longest := host.ImageRecord{Key: strings.Repeat("\x01", host.MaxImageRecordKey), Content: make([]byte, host.MaxImageRecordContent)}
	if err := h.PutImageRecord(t.Context(), longest); err != nil {
		t.Fatal(err)
	}
	got, err := h.ListImageRecords(t.Context())
	if diff := cmp.Diff([]host.ImageRecord{longest}, got); diff != "" || err != nil {
		t.Errorf("the longest does not come back: %v", err)
	}
}
