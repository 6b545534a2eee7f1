// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tombolo-dev/tombolo/link/calmlog"
	"github.com/tombolo-dev/tombolo/link/pki"
	"github.com/tombolo-dev/tombolo/link/safetext"
)

// errNothingShown is why a host does not get a certificate that shows neither a token nor one that is to be renewed.
var errNothingShown = errors.New("the host shows neither a token nor a certificate")

// DeskOptions say what hosts are given.
type DeskOptions struct {
	Ledger *Ledger
	// Validity is that of certificates from when they are issued.
	Validity time.Duration
	// Logger gets one line for each host that is answered, and for those that are refused unless they are many. Default: none.
	Logger *slog.Logger
	// Registerer gets the count of them. Default: none.
	Registerer prometheus.Registerer
}

// Desk answers hosts that ask for certificates.
type Desk struct {
	o       DeskOptions
	asked   *prometheus.CounterVec
	refused *calmlog.Log
}

// NewDesk returns a desk.
func NewDesk(o DeskOptions) *Desk {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{o: o, asked: newMetrics(o.Registerer), refused: calmlog.New(o.Logger, o.Ledger.clock)}
}

// Check says whether the certificate of a host is one that is good, and which host it is of.
func (d *Desk) Check(cert *x509.Certificate) (who string, err error) { return d.o.Ledger.Check(cert) }

// Introduce adds the authority to the node's own certificate: a host that joins knows the authority by a hash.
func (d *Desk) Introduce(own tls.Certificate) tls.Certificate {
	own.Certificate = append(slices.Clip(own.Certificate), d.o.Ledger.authority.Certificate().Raw)
	return own
}

// Serve answers one host on a connection whose certificate, if it showed one, was verified. It ends with ctx.
func (d *Desk) Serve(ctx context.Context, conn *tls.Conn) {
	defer context.AfterFunc(ctx, func() { _ = conn.NetConn().Close() })()
	var asked question
	if err := receive(conn, &asked); err != nil {
		d.refuse(conn, err)
		return
	}
	var shown *x509.Certificate
	if chain := conn.ConnectionState().PeerCertificates; len(chain) > 0 {
		shown = chain[0]
	}
	cert, result, err := d.decide(ctx, asked, shown, conn.RemoteAddr().String())
	if err != nil {
		d.refuse(conn, err)
		return
	}
	d.asked.WithLabelValues(result).Inc()
	d.o.Logger.Info("a host got a certificate", "result", result, "peer", conn.RemoteAddr().String(), "host", cert.Subject.CommonName,
		"token", asked.TokenID, "serial", serialOf(cert), "not_after", cert.NotAfter)
	authority := d.o.Ledger.authority.Certificate()
	if err := send(conn, answer{Certificate: pki.EncodeCertificate(cert), Authority: pki.EncodeCertificate(authority)}); err != nil {
		d.o.Logger.Warn("the host may not have got its certificate: it can ask again", "peer", conn.RemoteAddr().String(), "error", err)
	}
}

// decide gives a certificate for a token, or for one that is still good.
func (d *Desk) decide(ctx context.Context, asked question, shown *x509.Certificate, peer string) (cert *x509.Certificate, result string, err error) {
	result = resultRenewed
	if asked.TokenID != "" {
		result = resultJoined
	}
	cert, err = d.o.Ledger.issue(ctx, asked, shown, d.o.Validity, peer)
	return cert, result, err
}

// refuse tells the log why, and the host if it is for its eyes: what is wrong with the node itself is not.
func (d *Desk) refuse(conn *tls.Conn, err error) {
	result := resultOf(err)
	d.asked.WithLabelValues(result).Inc()
	d.refused.Warn("a host was refused a certificate", "result", result, "peer", conn.RemoteAddr().String(), "reason", safetext.Short(err.Error()))
	_ = send(conn, answer{Refusal: tellable(err)})
}

// tellable is what somebody may know who may be anybody.
func tellable(err error) string {
	if resultOf(err) == resultFailed && !errdefs.IsInvalidArgument(err) {
		return "it cannot answer now, its log says why"
	}
	return err.Error()
}
