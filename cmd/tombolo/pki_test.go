// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPKICommandsMakeALinksCertificates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	for _, args := range [][]string{
		{"pki", "init", "--dir", dir},
		{"pki", "host", "--dir", dir, "--name", "edge-1", "--address", "192.0.2.10", "--address", "edge-1.example.com"},
		{"pki", "node", "--dir", dir, "--name", "edge-1", "--validity", "48h"},
	} {
		if code, out, errs := execute(args...); code != exitSuccess || !strings.Contains(out, dir) {
			t.Fatalf("%v: exit %d, %q %q", args, code, out, errs)
		}
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "host-edge-1.crt"), filepath.Join(dir, "host-edge-1.key"))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	if code, out, errs := execute("pki", "host", "--dir", dir, "--name", "edge-2"); code != exitSuccess || !strings.Contains(out, "tombolo host --connect") {
		t.Errorf("without an address: exit %d, %q %q", code, out, errs)
	}
	for _, name := range []string{net.IPv4(192, 0, 2, 10).String(), "edge-1.example.com", "edge-1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Error(err)
		}
	}
	if pair, err = tls.LoadX509KeyPair(filepath.Join(dir, "node-edge-1.crt"), filepath.Join(dir, "node-edge-1.key")); err != nil {
		t.Fatal(err)
	}
	if left := time.Until(pair.Leaf.NotAfter); left > 48*time.Hour || left < 47*time.Hour {
		t.Errorf("the node's certificate is valid for %s", left)
	}
}

func TestPKIErrorsSayWhatToDo(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	if code, _, errs := execute("pki", "init", "--dir", dir); code != exitSuccess {
		t.Fatal(errs)
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"pki", "init", "--dir", dir}, exitFailure, "--force replaces it"},
		{[]string{"pki", "node", "--dir", empty, "--name", "n"}, exitFailure, "tombolo pki init --dir " + empty},
		{[]string{"pki", "node", "--dir", dir}, exitUsage, "--name is empty"},
		{[]string{"pki", "host", "--dir", dir, "--address", "192.0.2.1"}, exitUsage, "--name is empty"},
		{[]string{"pki", "host", "--dir", dir, "--name", "h", "--address", "192.0.2.1:80"}, exitUsage, `address "192.0.2.1:80"`},
		{[]string{"pki", "node", "--dir", dir, "--name", "Not_A_Name"}, exitUsage, `node name "Not_A_Name"`},
		{[]string{"pki", "node", "--dir", dir, "--name", "n", "--validity", "1000000h"}, exitUsage, "choose a shorter validity"},
	} {
		if code, out, errs := execute(test.args...); code != test.code || out != "" || !strings.Contains(errs, test.want) {
			t.Errorf("%v: exit %d, %q, want %d with %q", test.args, code, errs, test.code, test.want)
		}
	}
	if code, _, errs := execute("pki", "init", "--dir", dir, "--force"); code != exitSuccess {
		t.Errorf("with --force: %s", errs)
	}
}
