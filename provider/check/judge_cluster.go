// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
)

const (
	// soon is before when an expiring certificate is warned of, unless it lives so short that a fifth of its life is less.
	soon         = 30 * 24 * time.Hour
	lastFraction = 5
)

func judgeCertificate(c Certificate, now time.Time) Finding {
	if c.Err != nil {
		return failed(checkCertificates, fmt.Sprintf("%s: %v", c.What, c.Err), c.Remedy)
	}
	leaf, day := c.Leaf, func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	who := fmt.Sprintf("%s (%s)", c.What, leaf.Subject.CommonName)
	switch left := leaf.NotAfter.Sub(now); {
	case left <= 0:
		return failed(checkCertificates, fmt.Sprintf("%s has expired on %s", who, day(leaf.NotAfter)), c.Remedy)
	case now.Before(leaf.NotBefore):
		return failed(checkCertificates, fmt.Sprintf("%s is valid from %s only", who, day(leaf.NotBefore)), "see the clock, of this machine and of the one that made the certificate")
	case c.Name != "" && leaf.VerifyHostname(c.Name) != nil:
		return failed(checkCertificates, fmt.Sprintf("%s is not for %s: %v", who, c.Name, leaf.VerifyHostname(c.Name)), c.Remedy)
	case verify(c, now) != nil:
		return failed(checkCertificates, fmt.Sprintf("%s is not believed: %v", who, verify(c, now)), c.Remedy)
	case left < min(soon, leaf.NotAfter.Sub(leaf.NotBefore)/lastFraction):
		return warning(checkCertificates, fmt.Sprintf("%s expires on %s", who, day(leaf.NotAfter)), c.Remedy)
	default:
		return ok(checkCertificates, fmt.Sprintf("%s is valid until %s", who, day(leaf.NotAfter)))
	}
}

// verify finds the way from a certificate to what it must come from.
func verify(c Certificate, now time.Time) error {
	if c.Roots == nil {
		return nil
	}
	between := x509.NewCertPool()
	for _, each := range c.Chain {
		between.AddCert(each)
	}
	_, err := c.Leaf.Verify(x509.VerifyOptions{Roots: c.Roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{c.Usage}})
	return err
}

func judgeAPI(o *Observed) []Finding {
	if len(o.Identities) == 0 {
		const why = "nothing to reach the API server with: give --kubeconfig or --bootstrap-kubeconfig"
		return []Finding{skipped(checkAPI, why), skipped(checkRights, why)}
	}
	var findings []Finding
	for _, id := range o.Identities {
		findings = append(findings, judgeIdentity(o.Node, id)...)
	}
	return findings
}

func judgeIdentity(node string, id Identity) []Finding {
	if id.Err != nil {
		remedy := "see that the address of the server in it is right and reached from this machine, and that its authority is the cluster's"
		if errdefs.IsUnauthorized(id.Err) || errdefs.IsPermissionDenied(id.Err) {
			remedy = "the API server does not know this identity: see that token or certificate are of this cluster and have not expired"
		}
		return []Finding{
			failed(checkAPI, fmt.Sprintf("%s: %v", id.Source, id.Err), remedy),
			skipped(checkRights, fmt.Sprintf("%s: the API server is not reached", id.Source)),
		}
	}
	findings := []Finding{ok(checkAPI, fmt.Sprintf("%s is %s at %s (%s)", id.Source, id.User, id.Server, id.ServerVersion))}
	if want := nodeUser + node; id.Node && node != "" && id.User != want {
		findings = append(findings, failed(checkAPI, fmt.Sprintf("%s is %s, and the node is %s", id.Source, id.User, want),
			"give an identity of that name and of the group system:nodes, or let the node ask for one (--bootstrap-kubeconfig)"))
	}
	for _, a := range id.Answers {
		findings = append(findings, judgeRight(id, a))
	}
	return findings
}

func judgeRight(id Identity, a Answer) Finding {
	switch {
	case a.Err != nil:
		return failed(checkRights, fmt.Sprintf("%s: whether it may %s is not known: %v", id.User, a.Right, a.Err), "try again")
	case a.Allowed:
		return ok(checkRights, fmt.Sprintf("%s may %s", id.User, a.Right))
	case a.Right.Without != "":
		return warning(checkRights, fmt.Sprintf("%s may not %s: %s", id.User, a.Right, a.Right.Without), a.Right.remedy(id))
	default:
		return failed(checkRights, fmt.Sprintf("%s may not %s, which it needs %s", id.User, a.Right, a.Right.For), a.Right.remedy(id))
	}
}
