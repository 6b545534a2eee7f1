// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
)

// slowLogs answers reads of the files that are late with its error, and writes log again and again.
type slowLogs struct {
	host.LogReader
	late  string
	err   error
	log   string
	times int
}

func (s *slowLogs) ReadTail(_ context.Context, path string, _ int64) ([]byte, error) {
	if path == s.late {
		return nil, s.err
	}
	return []byte("left in " + path), nil
}

func (s *slowLogs) ReadLog(_ context.Context, _ host.LogRequest, stdout, _ io.Writer) error {
	for i := range s.times {
		if _, err := fmt.Fprintf(stdout, "%s%d", s.log, i); err != nil {
			return err
		}
	}
	return nil
}

func endedContainer(id string) cri.ContainerStatus {
	return cri.ContainerStatus{ID: id, Name: id, State: cri.ContainerExited, ExitCode: 1, TerminationMessageHostPath: id}
}

func TestMessageThatNeverComesIsGivenUp(t *testing.T) {
	pod := &v1.Pod{}
	pod.UID = "u"
	rs := &cri.PodStatus{Containers: []cri.ContainerStatus{endedContainer("bad"), endedContainer("good")}}
	for _, tt := range []struct {
		desc  string
		err   error
		tries int // that fail; -1 for all
	}{
		{"no answer in time", context.DeadlineExceeded, messageTries - 1},
		{"no answer in time, said by the link", fmt.Errorf("calling the host: %w", context.DeadlineExceeded), messageTries - 1},
		{"the link is down", errdefs.ErrUnavailable, -1},
		{"there is no file", errdefs.ErrNotFound, 0},
	} {
		t.Run(tt.desc, func(t *testing.T) {
			m := newMessages(&slowLogs{late: "bad", err: tt.err})
			for i := range 3 * messageTries {
				err := m.collect(t.Context(), pod, rs)
				if wantErr := tt.tries < 0 || i < tt.tries; (err != nil) != wantErr {
					t.Fatalf("try %d: %v", i, err)
				}
				if got := m.get("u", "good"); got != "left in good" {
					t.Fatalf("the other container's message is %q", got)
				}
			}
		})
	}
}

func TestCancelledReadOfAMessageIsNoLateOne(t *testing.T) {
	pod := &v1.Pod{}
	rs := &cri.PodStatus{Containers: []cri.ContainerStatus{endedContainer("bad")}}
	m := newMessages(&slowLogs{late: "bad", err: context.DeadlineExceeded})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 * messageTries {
		if err := m.collect(ctx, pod, rs); err == nil {
			t.Fatal("the message was given up though nobody waited for it")
		}
	}
}

func TestLogAsMessageKeepsOnlyItsEnd(t *testing.T) {
	cs := endedContainer("c")
	cs.TerminationMessageHostPath, cs.LogPath = "", "log"
	cs.Annotations = map[string]string{
		cri.AnnotationTerminationMessagePolicy: string(v1.TerminationMessageFallbackToLogsOnError),
	}
	logs := &slowLogs{log: strings.Repeat("x", 3000), times: 5}
	m := newMessages(logs)
	got, err := m.readLog(t.Context(), &cs)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != messageLogBytes || !strings.HasSuffix(got, "x4") {
		t.Errorf("got %d bytes, ending in %q", len(got), got[max(0, len(got)-10):])
	}
}

func FuzzTailKeepsTheLastBytes(f *testing.F) {
	f.Add(uint16(3000), uint16(1), uint16(2047))
	f.Add(uint16(1), uint16(2048), uint16(0))
	f.Fuzz(func(t *testing.T, a, b, c uint16) {
		var end tail
		var all bytes.Buffer
		for i, n := range []uint16{a, b, c} {
			p := bytes.Repeat([]byte{byte('a' + i)}, int(n))
			all.Write(p)
			if written, err := end.Write(p); written != len(p) || err != nil {
				t.Fatal(written, err)
			}
		}
		want := all.Bytes()[max(0, all.Len()-messageLogBytes):]
		if !bytes.Equal(want, end) {
			t.Errorf("got %d bytes, want %d", len(end), len(want))
		}
	})
}
