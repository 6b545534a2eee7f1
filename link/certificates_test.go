// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"os"
	"strings"
	"testing"

	"k8s.io/utils/clock"
)

func TestServerNameOverridesTheAddressInTheCertificate(t *testing.T) {
	a := newAuthority(t)
	pair, err := a.ca.IssueHost("edge-1", []string{"192.0.2.1"}, valid())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, a.files(pair))
	files := a.files(a.node(valid()))
	if _, err := greet(t, newLink(t, s.target(), files, &lines{})); err == nil || !strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("an address that the certificate does not have: %v", err)
	}
	certificates, err := LoadCertificates(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := New(Options{Target: s.target(), Certificates: certificates, ServerName: "edge-1", Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := greet(t, l); err != nil {
		t.Errorf("by the host's name: %v", err)
	}
}

func TestChangedCertificatesAreReadAgain(t *testing.T) {
	a, next := newAuthority(t), newAuthority(t)
	hostFiles, nodeFiles := a.files(a.host(valid())), a.files(a.node(valid()))
	s := serve(t, hostFiles)
	l := newLink(t, s.target(), nodeFiles, &lines{})
	if _, err := greet(t, l); err != nil {
		t.Fatal(err)
	}
	// Both sides move to another authority: first the host, which a node of the old one can no longer reach.
	pair := next.host(valid())
	write(t, hostFiles.CAFile, next.ca.Pair().CertificatePEM)
	write(t, hostFiles.CertFile, pair.CertificatePEM)
	write(t, hostFiles.KeyFile, pair.KeyPEM)
	if _, err := greet(t, l); err == nil {
		t.Error("the host still shows its old certificate")
	}
	pair = next.node(valid())
	write(t, nodeFiles.CAFile, next.ca.Pair().CertificatePEM)
	write(t, nodeFiles.CertFile, pair.CertificatePEM)
	write(t, nodeFiles.KeyFile, pair.KeyPEM)
	if _, err := greet(t, l); err != nil {
		t.Errorf("after both sides changed: %v", err)
	}
}

func TestUnusableCertificatesLeaveTheFormerOnesInUse(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	hostFiles := a.files(a.host(valid()))
	s := serve(t, hostFiles)
	l := newLink(t, s.target(), a.files(a.node(valid())), &lines{})
	write(t, hostFiles.KeyFile, other.host(valid()).KeyPEM) // the certificate is still to follow
	for range 3 {
		if _, err := greet(t, l); err != nil {
			t.Fatalf("with one file of a pair replaced: %v", err)
		}
	}
	if got := s.log.with("not usable"); len(got) != 1 {
		t.Errorf("log: %q, want one line", got)
	}
	if err := os.Remove(hostFiles.CertFile); err != nil {
		t.Fatal(err)
	}
	if _, err := greet(t, l); err != nil {
		t.Errorf("with a file missing: %v", err)
	}
}

func TestLoadCertificatesNamesTheBadFile(t *testing.T) {
	a := newAuthority(t)
	for name, spoil := range map[string]func(*Files) string{
		"missing authority":   func(f *Files) string { f.CAFile += "x"; return f.CAFile },
		"empty authority":     func(f *Files) string { write(t, f.CAFile, nil); return f.CAFile },
		"missing certificate": func(f *Files) string { f.CertFile += "x"; return f.CertFile },
		"missing key":         func(f *Files) string { f.KeyFile += "x"; return f.KeyFile },
		"other key":           func(f *Files) string { write(t, f.KeyFile, a.node(valid()).KeyPEM); return f.KeyFile },
	} {
		t.Run(name, func(t *testing.T) {
			files := a.files(a.node(valid()))
			path := spoil(&files)
			if _, err := LoadCertificates(files, nil); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %s", err, path)
			}
			files.Names = FileNames{CA: "--the-file", Cert: "--the-file", Key: "--the-file"}
			if _, err := LoadCertificates(files, nil); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "--the-file") {
				t.Errorf("got %v, want the flag and %s", err, path)
			}
		})
	}
}
