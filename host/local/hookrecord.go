// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tombolo-dev/tombolo/host"
)

// hooksDir holds the records of a pod's hooks, in the pod's directory.
const hooksDir = "hooks"

// hookRecord says on disk that a hook was begun, and later how it ended.
type hookRecord struct {
	// Action is for people who read the record. It has no headers of a request, which may be secret.
	Action       string    `json:"action"`
	BegunAt      time.Time `json:"begunAt"`
	EndedAt      time.Time `json:"endedAt,omitzero"`
	ExitCode     int32     `json:"exitCode"`
	Output       string    `json:"output,omitempty"`
	TimedOut     bool      `json:"timedOut,omitempty"`
	Interrupted  bool      `json:"interrupted,omitempty"`
	HTTPFallback bool      `json:"httpFallback,omitempty"`

	ContainerEnded bool `json:"containerEnded,omitempty"`
}

func newHookRecord(req host.HookRequest, begunAt time.Time) *hookRecord {
	record := &hookRecord{BegunAt: begunAt}
	switch {
	case req.HTTPGet != nil:
		record.Action = fmt.Sprintf("GET %s port %d", req.HTTPGet.Host, req.HTTPGet.Port)
	case req.Sleep != nil:
		record.Action = fmt.Sprintf("sleep %s", *req.Sleep)
	default:
		record.Action = fmt.Sprintf("exec %q", req.Command)
	}
	return record
}

func (r *hookRecord) end(at time.Time, result *host.HookResult) {
	r.EndedAt = at
	r.ExitCode = result.ExitCode
	r.Output = result.Output
	r.TimedOut = result.TimedOut
	r.Interrupted = result.Interrupted
	r.HTTPFallback = result.HTTPFallback
	r.ContainerEnded = result.ContainerEnded
}

// result returns what is known of the run. One without an end was interrupted.
func (r *hookRecord) result() *host.HookResult {
	if r.EndedAt.IsZero() {
		return &host.HookResult{ExitCode: noExitCode, Interrupted: true}
	}
	return &host.HookResult{
		ExitCode:       r.ExitCode,
		Output:         r.Output,
		TimedOut:       r.TimedOut,
		Interrupted:    r.Interrupted,
		HTTPFallback:   r.HTTPFallback,
		ContainerEnded: r.ContainerEnded,
	}
}

func (k hookKey) path() string {
	return filepath.Join(podDir(k.uid), hooksDir, k.containerID+"."+k.kind+".json")
}

// readHookRecord returns the record of a hook, nil if it was never begun. One that cannot be understood says that it was.
func (h *Host) readHookRecord(key hookKey) (*hookRecord, error) {
	data, err := h.root.ReadFile(key.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the record of a hook: %w", err)
	}
	return parseHookRecord(data), nil
}

func parseHookRecord(data []byte) *hookRecord {
	record := &hookRecord{}
	if err := json.Unmarshal(data, record); err != nil {
		return &hookRecord{}
	}
	return record
}

// writeHookRecord puts the record on disk in one step: when it returns, it survives a loss of power.
func (h *Host) writeHookRecord(key hookKey, record *hookRecord) error {
	data, err := json.Marshal(record)
	if err == nil {
		err = h.replaceFile(key.path(), data)
	}
	if err != nil {
		return fmt.Errorf("writing the record of a hook: %w", err)
	}
	return nil
}

func (h *Host) replaceFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := ensureDirs(h.root, dir, privateDirMode); err != nil {
		return err
	}
	unfinished := path + ".new"
	file, err := h.root.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := h.root.Rename(unfinished, path); err != nil {
		return err
	}
	return h.syncDir(dir)
}

func (h *Host) syncDir(path string) error {
	dir, err := h.root.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// truncate cuts text to what is kept of a hook's output, and makes it valid UTF-8.
func truncate(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxHookOutput)], "\uFFFD")
}
