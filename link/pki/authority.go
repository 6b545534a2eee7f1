// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"

	"github.com/containerd/errdefs"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Organizations say in a certificate's subject what its holder is.
const (
	OrganizationHost = "tombolo:hosts"
	OrganizationNode = "tombolo:nodes"
)

// backdating is how far before its making a certificate begins, so that it is valid on machines whose clock is behind.
const backdating = 5 * time.Minute

const (
	pemCertificate = "CERTIFICATE"
	pemPrivateKey  = "PRIVATE KEY"
)

// Pair is a certificate and its key, both in PEM.
type Pair struct {
	CertificatePEM []byte
	KeyPEM         []byte
	NotAfter       time.Time
}

// Authority signs certificates. It is immutable.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pair Pair
}

// Lifetime is when a certificate is made and how long it is valid from then.
type Lifetime struct {
	From     time.Time
	Validity time.Duration
}

// NewAuthority makes a self-signed authority with a fresh key. The name is for people who look at the certificate.
func NewAuthority(name string, life Lifetime) (*Authority, error) {
	if name == "" {
		return nil, fmt.Errorf("the name of the authority is empty: %w", errdefs.ErrInvalidArgument)
	}
	template, err := newTemplate(pkix.Name{CommonName: name}, life)
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.MaxPathLenZero = true // signs hosts and nodes, never another authority
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	cert, pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return &Authority{cert: cert, key: key, pair: *pair}, nil
}

// ParseAuthority reads an authority back from its PEM form.
func ParseAuthority(certPEM, keyPEM []byte) (*Authority, error) {
	block, _ := pem.Decode(certPEM)
	if block == nil || block.Type != pemCertificate {
		return nil, fmt.Errorf("no PEM block %q in the authority's certificate: %w", pemCertificate, errdefs.ErrInvalidArgument)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the authority's certificate: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	if !cert.IsCA {
		return nil, fmt.Errorf("the certificate of %q is not that of an authority: %w", cert.Subject.CommonName, errdefs.ErrInvalidArgument)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("the authority's key: %w", err)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("the authority's key does not belong to its certificate: %w", errdefs.ErrInvalidArgument)
	}
	return &Authority{cert: cert, key: key, pair: Pair{CertificatePEM: certPEM, KeyPEM: keyPEM, NotAfter: cert.NotAfter}}, nil
}

// Pair returns the authority's own certificate and key. The bytes are shared and must not be changed.
func (a *Authority) Pair() Pair { return a.pair }

// IssueHost makes the certificate of a host. It is good for serving only, under the host's name and at the given DNS
// names and IP addresses.
func (a *Authority) IssueHost(name string, addresses []string, life Lifetime) (*Pair, error) {
	template, err := hostTemplate(name, addresses, life)
	if err != nil {
		return nil, err
	}
	return a.issue(template)
}

func hostTemplate(name string, addresses []string, life Lifetime) (*x509.Certificate, error) {
	if err := checkName("host", name); err != nil {
		return nil, err
	}
	dnsNames := []string{name}
	var ips []net.IP
	for _, address := range addresses {
		if ip := net.ParseIP(address); ip != nil {
			ips = append(ips, ip)
			continue
		}
		if problems := validation.IsDNS1123Subdomain(address); len(problems) > 0 {
			return nil, fmt.Errorf("address %q is neither an IP address nor a DNS name (no port belongs here): %w", address, errdefs.ErrInvalidArgument)
		}
		if address != name {
			dnsNames = append(dnsNames, address)
		}
	}
	template, err := newTemplate(pkix.Name{CommonName: name, Organization: []string{OrganizationHost}}, life)
	if err != nil {
		return nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.DNSNames = dnsNames
	template.IPAddresses = ips
	return template, nil
}

// IssueNode makes the certificate of a node, good for calling hosts only.
func (a *Authority) IssueNode(name string, life Lifetime) (*Pair, error) {
	if err := checkName("node", name); err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: name, Organization: []string{OrganizationNode}}, life)
	if err != nil {
		return nil, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// outlives refuses what would be valid for longer than the authority.
func (a *Authority) outlives(template *x509.Certificate) error {
	if template.NotAfter.After(a.cert.NotAfter) {
		return fmt.Errorf("the certificate would be valid until %s, longer than its authority (%s); choose a shorter validity: %w",
			template.NotAfter.Format(time.RFC3339), a.cert.NotAfter.Format(time.RFC3339), errdefs.ErrInvalidArgument)
	}
	return nil
}

func (a *Authority) issue(template *x509.Certificate) (*Pair, error) {
	if err := a.outlives(template); err != nil {
		return nil, err
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	_, pair, err := sign(template, a.cert, key, a.key)
	return pair, err
}

// sign makes a certificate from the template for key, signed by the parent's key.
func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (*x509.Certificate, *Pair, error) {
	cert, err := create(template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate of %q: %w", template.Subject.CommonName, err)
	}
	return cert, &Pair{
		CertificatePEM: EncodeCertificate(cert),
		KeyPEM:         keyPEM,
		NotAfter:       cert.NotAfter,
	}, nil
}

// create does the same without knowing the private key.
func create(template, parent *x509.Certificate, key *ecdsa.PublicKey, parentKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, parentKey)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of %q: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back the certificate of %q: %w", template.Subject.CommonName, err)
	}
	return cert, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemPrivateKey, Bytes: der}), nil
}

func parseKey(keyPEM []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(keyPEM)
	if block == nil || block.Type != pemPrivateKey {
		return nil, fmt.Errorf("no PEM block %q: %w", pemPrivateKey, errdefs.ErrInvalidArgument)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parsing the key: %w: %w", err, errdefs.ErrInvalidArgument)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it is a %T, not an ECDSA key: %w", parsed, errdefs.ErrInvalidArgument)
	}
	return key, nil
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return key, nil
}

func newTemplate(subject pkix.Name, life Lifetime) (*x509.Certificate, error) {
	if life.Validity <= 0 {
		return nil, fmt.Errorf("validity %s is not positive: %w", life.Validity, errdefs.ErrInvalidArgument)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               subject,
		NotBefore:             life.From.Add(-backdating),
		NotAfter:              life.From.Add(life.Validity),
		BasicConstraintsValid: true,
	}, nil
}

// checkName refuses names that could not be a host or node name. They become file names as well.
func checkName(what, name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%s name %q: %s: %w", what, name, problems[0], errdefs.ErrInvalidArgument)
	}
	return nil
}
