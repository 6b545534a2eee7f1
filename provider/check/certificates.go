// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"golang.org/x/crypto/ssh"
	certutil "k8s.io/client-go/util/cert"

	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
)

// CertificateFile is a file of certificates in PEM form.
type CertificateFile struct {
	// Flag is what names the file.
	Flag, Path string
	// All says that every certificate in the file counts, as with authorities, and not only the first.
	All    bool
	Remedy string
}

const (
	authorityRemedy   = "make a new authority (tombolo pki init --force) and new certificates for both ends"
	nodeRemedy        = "make another one: tombolo pki node --name NAME --force"
	hostRemedy        = "make another one, with every name and address by which nodes reach the host: tombolo pki host --name NAME --address ADDRESS --force"
	joinRemedy        = "stop the node, give it an empty directory, and let the host join again (tombolo token create)"
	certificateRemedy = "replace it; it is read again when the file changes"
)

// read reads the certificates of a file.
func (f CertificateFile) read() []Certificate {
	what, remedy := f.Flag+" "+f.Path, f.Remedy
	if remedy == "" {
		remedy = certificateRemedy
	}
	data, err := os.ReadFile(f.Path)
	if err != nil {
		return []Certificate{{What: what, Err: err, Remedy: "give a file that this process can read"}}
	}
	return parse(what, data, f.All, remedy)
}

// parse reads certificates in PEM form.
func parse(what string, data []byte, all bool, remedy string) []Certificate {
	found, err := certutil.ParseCertsPEM(data)
	if err != nil {
		return []Certificate{{What: what, Err: err, Remedy: "give a file with a certificate in PEM form"}}
	}
	if !all {
		found = found[:1]
	}
	var out []Certificate
	for _, each := range found {
		out = append(out, Certificate{What: what, Leaf: each, Remedy: remedy})
	}
	return out
}

// linkCertificates are those with which both ends of a link know each other.
func linkCertificates(ctx context.Context, target link.Target, o hostconn.Options) []Certificate {
	switch target.Scheme {
	case link.SchemeTLS, link.SchemeReverse:
		files := o.LinkFiles(target)
		authority := CertificateFile{Flag: "--host-ca-file", Path: files.CAFile, All: true, Remedy: authorityRemedy}
		own := CertificateFile{Flag: "--host-cert-file", Path: files.CertFile, Remedy: nodeRemedy}
		if o.Join.Dir != "" {
			authority.Flag, authority.Remedy, own.Flag, own.Remedy = "--join-dir", joinRemedy, "--join-dir", joinRemedy
		}
		out := append(authority.read(), own.read()...)
		if target.Scheme == link.SchemeReverse {
			return out // the host comes by itself, or does not
		}
		shown, name, err := link.PeerCertificates(ctx, target, files, o.ServerName)
		if err != nil || len(shown) == 0 {
			return out // what is in the way is told of the link
		}
		roots, err := certutil.NewPool(files.CAFile)
		if err != nil {
			return out // told above
		}
		return append(out, Certificate{
			What: "the certificate of the host", Leaf: shown[0], Chain: shown[1:], Name: name, Roots: roots,
			Usage: x509.ExtKeyUsageServerAuth, Remedy: hostRemedy,
		})
	case link.SchemeSSH:
		if o.SSH.Identity.CertFile != "" {
			return []Certificate{sshCertificate(o.SSH.Identity.CertFile)}
		}
	}
	return nil
}

// sshCertificate reads an OpenSSH certificate.
func sshCertificate(path string) Certificate {
	c := Certificate{What: "--host-ssh-cert-file " + path, Remedy: "have the key signed again (ssh-keygen -s)"}
	data, err := os.ReadFile(path)
	if err != nil {
		c.Err = err
		return c
	}
	key, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		c.Err = fmt.Errorf("reading an OpenSSH certificate: %w", err)
		return c
	}
	signed, ok := key.(*ssh.Certificate)
	if !ok {
		c.Err = errors.New("it is a key without a signature")
		return c
	}
	// Only what is said of every certificate is filled in. "For ever" is more than a time can hold.
	at := func(seconds uint64) time.Time { return time.Unix(int64(min(seconds, math.MaxInt32*100)), 0) }
	c.Leaf = &x509.Certificate{Subject: pkix.Name{CommonName: signed.KeyId}, NotBefore: at(signed.ValidAfter), NotAfter: at(signed.ValidBefore)}
	return c
}
