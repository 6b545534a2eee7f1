// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"io"
	"sync"

	"google.golang.org/grpc"

	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// logBacklog is how much of a log may wait to be sent before its reader is held up.
const logBacklog = 4 * chunkSize

func (s *service) ReadLog(r *hostpb.ReadLogRequest, out grpc.ServerStreamingServer[hostpb.ReadLogResponse]) error {
	sender := newLogSender(out)
	var wg sync.WaitGroup
	wg.Go(sender.run)
	err := s.host.ReadLog(out.Context(), logRequestFromWire(r),
		sender.writer(hostpb.LogStream_LOG_STREAM_STDOUT, r.GetSkipStdout()),
		sender.writer(hostpb.LogStream_LOG_STREAM_STDERR, r.GetSkipStderr()))
	sender.end()
	wg.Wait()
	return toStatus(err)
}

// logSender collects lines while a message is under way, so that a fast log travels in few messages and a slow one without
// delay. Lines of both streams stay in order.
type logSender struct {
	out grpc.ServerStreamingServer[hostpb.ReadLogResponse]

	mu      sync.Mutex
	changed *sync.Cond
	pieces  []*hostpb.ReadLogResponse
	size    int // bytes in pieces
	ended   bool
	err     error // of sending
}

func newLogSender(out grpc.ServerStreamingServer[hostpb.ReadLogResponse]) *logSender {
	s := &logSender{out: out}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// run sends until end was called and everything is sent, or sending fails.
func (s *logSender) run() {
	for {
		pieces := s.take()
		if pieces == nil {
			return
		}
		for _, piece := range pieces {
			if err := s.out.Send(piece); err != nil {
				s.fail(err)
				return
			}
		}
	}
}

// take waits for pieces; nil means that no more come.
func (s *logSender) take() []*hostpb.ReadLogResponse {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pieces) == 0 && !s.ended {
		s.changed.Wait()
	}
	pieces := s.pieces
	s.pieces, s.size = nil, 0
	s.changed.Broadcast()
	return pieces
}

func (s *logSender) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
	s.changed.Broadcast()
}

func (s *logSender) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Broadcast()
}

// write adds bytes of one stream, and waits while too many wait already.
func (s *logSender) write(stream hostpb.LogStream, p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written := 0
	for written < len(p) {
		for s.size >= logBacklog && s.err == nil {
			s.changed.Wait()
		}
		if s.err != nil {
			return written, s.err
		}
		n := min(len(p)-written, chunkSize)
		s.add(stream, p[written:written+n])
		written += n
	}
	return written, nil
}

// add puts at most chunkSize bytes into the newest piece or a new one, and wakes the sender.
func (s *logSender) add(stream hostpb.LogStream, p []byte) {
	s.size += len(p)
	defer s.changed.Broadcast()
	if len(s.pieces) > 0 {
		last := s.pieces[len(s.pieces)-1]
		if last.GetStream() == stream && len(last.GetData())+len(p) <= chunkSize {
			last.Data = append(last.Data, p...)
			return
		}
	}
	s.pieces = append(s.pieces, &hostpb.ReadLogResponse{Stream: stream, Data: append([]byte(nil), p...)})
}

// writer returns the writer of one stream, nil if the caller does not want it.
func (s *logSender) writer(stream hostpb.LogStream, skip bool) io.Writer {
	if skip {
		return nil
	}
	return logWriter{sender: s, stream: stream}
}

type logWriter struct {
	sender *logSender
	stream hostpb.LogStream
}

func (w logWriter) Write(p []byte) (int, error) { return w.sender.write(w.stream, p) }
