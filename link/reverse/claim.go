// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"time"
)

// claim says which host has the name. Its zero value is nobody.
type claim struct {
	who    string
	issued time.Time
}

// claimOf is the claim of who has the certificate: what is known of that, or else its key.
func claimOf(cert *x509.Certificate, who string) claim {
	if who == "" {
		key := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
		who = string(key[:])
	}
	return claim{who: who, issued: cert.NotBefore}
}

// errTaken is why a host is refused although its certificate has the right name.
var errTaken = errors.New("another host has this name")

// yield says whether a host may have the name. The one that has it may always connect again. Another one, such as the same machine
// with a new certificate, follows it once it is away, and only with a certificate that was issued later: so two hosts never
// take a name from each other in turn.
func (c claim) yield(to claim, connected bool) error {
	switch {
	case c.issued.IsZero() || c.who == to.who:
		return nil
	case connected:
		return fmt.Errorf("%w and is connected with another certificate: give this one a name of its own, or stop the other one", errTaken)
	case !to.issued.After(c.issued):
		return fmt.Errorf("%w, with a certificate that was issued later: give this one a name of its own, or a new certificate", errTaken)
	}
	return nil
}

// checkName says whether a certificate is that of the host.
func checkName(cert *x509.Certificate, name string) error {
	if cert.VerifyHostname(name) == nil {
		return nil
	}
	has := cert.DNSNames
	if len(has) == 0 {
		has = []string{cert.Subject.CommonName}
	}
	return fmt.Errorf("the node is for reverse://%s (--host), and the certificate of the host (--tls-cert-file) has the name %s", name, strings.Join(has, ", "))
}
