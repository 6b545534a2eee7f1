// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
)

func TestCheckUsageRefusesTheCertificateOfTheOtherEnd(t *testing.T) {
	a := newAuthority(t)
	for _, tt := range []struct {
		name   string
		files  Files
		usage  x509.ExtKeyUsage
		remedy string // "" if the certificate will do
	}{
		{"a host with its own", a.files(a.host(valid())), x509.ExtKeyUsageServerAuth, ""},
		{"a host with a node's", a.files(a.node(valid())), x509.ExtKeyUsageServerAuth, "tombolo pki host"},
		{"a node with its own", a.files(a.node(valid())), x509.ExtKeyUsageClientAuth, ""},
		{"a node with a host's", a.files(a.host(valid())), x509.ExtKeyUsageClientAuth, "tombolo pki node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := LoadCertificates(tt.files, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = c.CheckUsage(tt.usage)
			if tt.remedy == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), tt.files.CertFile) || !strings.Contains(err.Error(), tt.remedy) {
				t.Errorf("got %v, want %s and %q", err, tt.files.CertFile, tt.remedy)
			}
		})
	}
}
