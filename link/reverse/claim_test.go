// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package reverse

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"
)

func TestNameIsYieldedToTheSameHostOrLaterToANewerCertificate(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	held := claim{who: "a", issued: noon}
	for name, tc := range map[string]struct {
		holder, to claim
		connected  bool
		refused    string
	}{
		"nobody has it":                     {claim{}, held, false, ""},
		"the same connects again":           {held, held, true, ""},
		"the same with a renewed one":       {held, claim{who: held.who, issued: noon.Add(time.Hour)}, true, ""},
		"the same with its former one":      {held, claim{who: held.who, issued: noon.Add(-time.Hour)}, false, ""},
		"another while it is there":         {held, claim{who: "b", issued: noon.Add(time.Hour)}, true, "is connected with another certificate"},
		"another one, issued later":         {held, claim{who: "b", issued: noon.Add(time.Hour)}, false, ""},
		"another one, issued earlier":       {held, claim{who: "b", issued: noon.Add(-time.Hour)}, false, "issued later"},
		"another one, issued with the same": {held, claim{who: "b", issued: noon}, false, "issued later"},
	} {
		err := tc.holder.yield(tc.to, tc.connected)
		if (err == nil) != (tc.refused == "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: %v, want %q", name, err, tc.refused)
		}
	}
}

func TestNameIsThatOfTheCertificate(t *testing.T) {
	for name, tc := range map[string]struct {
		cert *x509.Certificate
		want string
	}{
		"the right one":  {&x509.Certificate{DNSNames: []string{"edge-1", "edge-1.example.com"}}, ""},
		"another one":    {&x509.Certificate{DNSNames: []string{"edge-2", "edge-2.example.com"}}, "has the name edge-2, edge-2.example.com"},
		"none but a CN":  {&x509.Certificate{Subject: pkix.Name{CommonName: "edge-1"}}, "has the name edge-1"},
		"part of a name": {&x509.Certificate{DNSNames: []string{"edge-11", "edge"}}, "reverse://edge-1 (--host)"},
	} {
		err := checkName(tc.cert, "edge-1")
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
