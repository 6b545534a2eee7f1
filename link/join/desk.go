// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tombolo-dev/tombolo/link/pki"
)

// errNothingShown is why a host does not get a certificate that shows neither a token nor one that is to be renewed.
var errNothingShown = errors.New("the host shows neither a token nor a certificate")

// DeskOptions say what hosts are given.
type DeskOptions struct {
	Ledger *Ledger
	// Validity is that of certificates from when they are issued.
	Validity time.Duration
	// Logger gets one line for each host that asks. Default: none.
	Logger *slog.Logger
	// Registerer gets the count of them. Default: none.
	Registerer prometheus.Registerer
}

// Desk answers hosts that ask for certificates.
type Desk struct {
	o     DeskOptions
	asked *prometheus.CounterVec
}

// NewDesk returns a desk.
func NewDesk(o DeskOptions) *Desk {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Desk{o: o, asked: newMetrics(o.Registerer)}
}

// Check says whether the certificate of a host is one that is good.
func (d *Desk) Check(cert *x509.Certificate) error { return d.o.Ledger.Check(cert) }

// Introduce adds the authority to the node's own certificate: a host that joins knows the authority by a hash.
func (d *Desk) Introduce(own tls.Certificate) (tls.Certificate, error) {
	authority, err := d.o.Ledger.authority()
	if err != nil {
		return own, err
	}
	own.Certificate = append(slices.Clip(own.Certificate), authority.Certificate().Raw)
	return own, nil
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
	cert, result, err := d.decide(asked, shown, conn.RemoteAddr().String())
	if err != nil {
		d.refuse(conn, err)
		return
	}
	authority, err := d.o.Ledger.authority()
	if err != nil {
		d.refuse(conn, err)
		return
	}
	d.asked.WithLabelValues(result).Inc()
	d.o.Logger.Info("a host got a certificate", "result", result, "peer", conn.RemoteAddr().String(), "host", cert.Subject.CommonName,
		"token", asked.TokenID, "serial", serialOf(cert), "not_after", cert.NotAfter)
	_ = send(conn, answer{Certificate: pki.EncodeCertificate(cert), Authority: pki.EncodeCertificate(authority.Certificate())})
}

// decide gives a certificate for a token, or for one that is still good.
func (d *Desk) decide(asked question, shown *x509.Certificate, peer string) (cert *x509.Certificate, result string, err error) {
	switch {
	case asked.TokenID != "":
		cert, err = d.o.Ledger.issue(asked.Request, d.o.Validity, func(c *Content, now time.Time) (string, error) {
			return "token " + asked.TokenID, c.redeem(asked.TokenID, asked.Secret, now, peer)
		})
		return cert, resultJoined, err
	case shown != nil:
		cert, err = d.o.Ledger.issue(asked.Request, d.o.Validity, func(c *Content, _ time.Time) (string, error) {
			if shown.Subject.CommonName != c.Host {
				return "", fmt.Errorf("%w: its certificate is for %q, and this node is for %q", errOtherName, shown.Subject.CommonName, c.Host)
			}
			return "certificate " + serialOf(shown), c.check(shown)
		})
		return cert, resultRenewed, err
	}
	return nil, "", errNothingShown
}

func (d *Desk) refuse(conn *tls.Conn, err error) {
	result := resultOf(err)
	d.asked.WithLabelValues(result).Inc()
	d.o.Logger.Warn("a host was refused a certificate", "result", result, "peer", conn.RemoteAddr().String(), "reason", err.Error())
	_ = send(conn, answer{Refusal: err.Error()})
}
