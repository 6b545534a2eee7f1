// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/credentials"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/link/calmlog"
	"github.com/tombolo-dev/tombolo/link/guestlist"
	"github.com/tombolo-dev/tombolo/link/safetext"
)

// maxHandshakes bounds how many peers a host may have that nothing is known of yet. With one more, the oldest of the busiest source is
// sent away: a node is done within moments, those who only take up room are not.
const maxHandshakes = 64

// ServerOptions are whom a server's credentials let in, and what they report to.
type ServerOptions struct {
	// Nodes may connect. Default: every one of the authority.
	Nodes Nodes
	// Logger gets one line for each connection that is accepted, and for those that are refused unless they are many. Default: none.
	Logger *slog.Logger
	// Registerer gets the count of refused connections and the end of our own certificate. Default: none.
	Registerer prometheus.Registerer
}

// ServerCredentials returns the credentials of a gRPC server that speaks TLS 1.3 and demands a client certificate. A peer
// that cannot show one gets no byte of an answer beyond the handshake, and leaves a line in the log that says why, unless they are many.
func (c *Certificates) ServerCredentials(o ServerOptions) credentials.TransportCredentials {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &serverCredentials{
		TransportCredentials: credentials.NewTLS(c.serverConfig(o.Nodes)),
		logger:               o.Logger,
		guests:               guestlist.New(maxHandshakes),
		refused:              calmlog.New(o.Logger, clock.RealClock{}),
		metrics:              newMetrics(o.Registerer, c),
	}
}

// serverCredentials reports the handshakes that fail.
type serverCredentials struct {
	credentials.TransportCredentials
	logger  *slog.Logger
	guests  *guestlist.List
	refused *calmlog.Log
	metrics *metrics
}

// ServerHandshake secures a connection.
func (s *serverCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	var busy atomic.Bool
	known := s.guests.LetIn(raw.RemoteAddr(), func() {
		busy.Store(true)
		_ = raw.Close()
	})
	secured, info, err := s.TransportCredentials.ServerHandshake(raw)
	known()
	if err == nil {
		s.logger.Info("connection accepted", "peer", raw.RemoteAddr().String(), "node", subject(info))
		return secured, info, nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		// A load balancer or a port scan that connected and went away without a word was not refused.
		s.logger.Debug("connection closed by the peer before the handshake", "peer", raw.RemoteAddr().String())
		return nil, nil, err
	}
	reason := refusal(err)
	if busy.Load() {
		reason = "it took up room that others needed, and had not shown who it is"
	}
	s.metrics.refused.Inc()
	s.refused.Warn("connection refused", "peer", raw.RemoteAddr().String(), "reason", reason)
	return nil, nil, err
}

// subject is the name in the peer's certificate.
func subject(info credentials.AuthInfo) string {
	if secured, ok := info.(credentials.TLSInfo); ok && len(secured.State.PeerCertificates) > 0 {
		return secured.State.PeerCertificates[0].Subject.CommonName
	}
	return ""
}

// Clone returns a copy with the same reports.
func (s *serverCredentials) Clone() credentials.TransportCredentials {
	return &serverCredentials{TransportCredentials: s.TransportCredentials.Clone(), logger: s.logger, guests: s.guests, refused: s.refused, metrics: s.metrics}
}

// refusal says in an operator's words why a handshake failed. The peer, of whom nothing is known, has a part in some of them.
func refusal(err error) string {
	if name := (*nodeNameError)(nil); errors.As(err, &name) {
		return name.Error()
	}
	return safetext.Short(wordsFor(err))
}

func wordsFor(err error) string {
	if header := (tls.RecordHeaderError{}); errors.As(err, &header) {
		if looksLikeHTTP(header.RecordHeader[:]) {
			return "the peer speaks plain HTTP, TLS 1.3 with a client certificate is required"
		}
		return "the peer does not speak TLS, TLS 1.3 with a client certificate is required"
	}
	if unverified := (*tls.CertificateVerificationError)(nil); errors.As(err, &unverified) && len(unverified.UnverifiedCertificates) > 0 {
		return "certificate of " + unverified.UnverifiedCertificates[0].Subject.String() + ": " + unverified.Err.Error()
	}
	if strings.Contains(err.Error(), "ALPN") { // gRPC's own error, which has no type
		return "the peer does not offer HTTP/2 as the application protocol (ALPN)"
	}
	return err.Error()
}

// looksLikeHTTP says whether the first five bytes of a connection begin an HTTP/1 request or the preface of HTTP/2.
func looksLikeHTTP(start []byte) bool {
	for _, method := range []string{"GET ", "HEAD ", "POST ", "PUT ", "PATCH", "DELET", "CONNE", "OPTIO", "TRACE", "PRI *"} {
		if strings.HasPrefix(string(start), method) {
			return true
		}
	}
	return false
}
