// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/tombolo-dev/tombolo/link/calmlog"
)

const (
	// maxLine is how much of a line of the host's log is kept.
	maxLine = 8 << 10
	// maxLast is how many lines are kept for an error.
	maxLast = 5
)

// hostLog writes what the program on the host writes to standard error to our log: log lines in JSON with their level and
// fields, anything else as it is.
type hostLog struct {
	log *calmlog.Log

	mu    sync.Mutex
	begun []byte   // a line whose end did not come yet
	lines []string // the last ones that are no log lines, or errors in the log
	// latest is the last line that is worth showing.
	latest string
}

func newHostLog(log *calmlog.Log) *hostLog { return &hostLog{log: log} }

// Write never fails.
func (l *hostLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		l.begun = append(l.begun, line[:min(len(line), maxLine-len(l.begun))]...)
		if ended {
			l.line(strings.TrimSpace(string(l.begun)))
			l.begun = l.begun[:0]
		}
		rest = after
	}
	return len(p), nil
}

func (l *hostLog) line(text string) {
	if text == "" {
		return
	}
	level, message, fields, ok := parseLogLine(text)
	if !ok {
		level, message = slog.LevelWarn, text
	}
	if level >= slog.LevelInfo {
		l.latest = message
	}
	if !ok || level >= slog.LevelError {
		l.lines = append(l.lines, message)
		l.lines = l.lines[max(0, len(l.lines)-maxLast):]
	}
	l.log.Log(level, "the host says", append([]any{"text", message}, fields...)...)
}

// parseLogLine reads a line of slog in JSON.
func parseLogLine(text string) (level slog.Level, message string, fields []any, ok bool) {
	var all map[string]any
	if json.Unmarshal([]byte(text), &all) != nil {
		return 0, "", nil, false
	}
	name, _ := all[slog.LevelKey].(string)
	message, isText := all[slog.MessageKey].(string)
	if level.UnmarshalText([]byte(name)) != nil || !isText {
		return 0, "", nil, false
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key != slog.LevelKey && key != slog.MessageKey && key != slog.TimeKey {
			fields = append(fields, slog.Any(key, all[key]))
		}
	}
	if len(fields) > 0 {
		fields = []any{slog.Group("host", fields...)}
	}
	return level, message, fields, true
}

// waitingFor is what was said last.
func (l *hostLog) waitingFor() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return printable(l.latest)
}

// last is what was written last, without ordinary log lines.
func (l *hostLog) last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.lines
	if begun := strings.TrimSpace(string(l.begun)); begun != "" {
		lines = append(slices.Clip(lines), begun)
	}
	return strings.Join(lines, "\n")
}
