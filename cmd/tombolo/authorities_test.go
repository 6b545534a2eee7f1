// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// TestPublicAuthoritiesAreKnownOnAMachineWithoutAny runs itself where the program sees no file of authorities, as in its image.
func TestPublicAuthoritiesAreKnownOnAMachineWithoutAny(t *testing.T) {
	if os.Getenv("TOMBOLO_TEST_AUTHORITIES") == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "TOMBOLO_TEST_AUTHORITIES=none", "SSL_CERT_FILE=/nowhere/file", "SSL_CERT_DIR=/nowhere/dir")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var last error
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if _, last = cert.Verify(x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); last == nil {
			return // nearly all of them: one may have expired since
		}
	}
	t.Errorf("no public authority is known: %v", last)
}
