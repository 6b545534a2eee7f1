// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/containerd/errdefs"
)

// protocolHTTP2 is the only application protocol that is spoken over a tls:// link.
const protocolHTTP2 = "h2"

// Files name the PEM files that identify one end of a link.
type Files struct {
	// CAFile has the authorities that the other end's certificate must come from.
	CAFile string
	// CertFile and KeyFile are this end's certificate, with intermediate ones if there are any, and its key.
	CertFile string
	KeyFile  string
	// Names are what errors call the files, such as the flags that name them. They are described where it is empty.
	Names FileNames
}

// FileNames are what the files are called.
type FileNames struct{ CA, Cert, Key string }

// Certificates are the contents of Files, read again when a file changes. While changed files are not usable, for instance
// because only one of a pair was replaced yet, the former contents stay in use.
type Certificates struct {
	files  Files
	logger *slog.Logger

	mu     sync.Mutex
	loaded *identity
	seen   [3]os.FileInfo // of the files when they were last read, usable or not
}

// identity is one consistent reading of the files.
type identity struct {
	certificate tls.Certificate
	authorities *x509.CertPool
}

// LoadCertificates reads the files for the first time. An error names the file.
func LoadCertificates(files Files, logger *slog.Logger) (*Certificates, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := &Certificates{files: files, logger: logger}
	c.seen = c.stat()
	loaded, err := files.read()
	if err != nil {
		return nil, err
	}
	c.loaded = loaded
	return c, nil
}

// CheckUsage refuses a certificate of our own that the other end could never accept: usage is ServerAuth for a host and
// ClientAuth for a node. An error is InvalidArgument and says how to make one that will do.
func (c *Certificates) CheckUsage(usage x509.ExtKeyUsage) error {
	leaf := c.current().certificate.Leaf
	allowed := leaf.ExtKeyUsage
	// A certificate that lists no usage at all is good for every one.
	if len(allowed) == 0 && len(leaf.UnknownExtKeyUsage) == 0 ||
		slices.Contains(allowed, usage) || slices.Contains(allowed, x509.ExtKeyUsageAny) {
		return nil
	}
	role, command := "a host", "tombolo pki host"
	if usage == x509.ExtKeyUsageClientAuth {
		role, command = "a node", "tombolo pki node"
	}
	return fmt.Errorf("certificate %s of %q is not one of %s, make one with: %s: %w",
		c.files.CertFile, leaf.Subject.CommonName, role, command, errdefs.ErrInvalidArgument)
}

// clientConfig returns the configuration for one handshake with a server of that name.
func (c *Certificates) clientConfig(serverName string) *tls.Config {
	id := c.current()
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{protocolHTTP2},
		ServerName:   serverName,
		RootCAs:      id.authorities,
		Certificates: []tls.Certificate{id.certificate},
	}
}

// serverConfig returns the configuration of a server for any number of handshakes with those nodes. No session is ever resumed: each
// connection is checked against the authorities of that moment.
func (c *Certificates) serverConfig(nodes Nodes) *tls.Config {
	base := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{protocolHTTP2},
		ClientAuth:             tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true,
		VerifyConnection:       nodes.check,
	}
	config := base.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		id := c.current()
		each := base.Clone()
		each.ClientCAs = id.authorities
		each.Certificates = []tls.Certificate{id.certificate}
		return each, nil
	}
	return config
}

// current returns what the files say, or what they said when they were last usable.
func (c *Certificates) current() *identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.stat()
	if sameFiles(c.seen, now) {
		return c.loaded
	}
	c.seen = now
	loaded, err := c.files.read()
	if err != nil {
		c.logger.Warn("changed certificates are not usable, the former ones stay in use", "error", err)
		return c.loaded
	}
	c.logger.Info("certificates were read again", "cert_file", c.files.CertFile, "not_after", loaded.certificate.Leaf.NotAfter)
	c.loaded = loaded
	return loaded
}

// stat looks at the files without reading them. A missing one is nil.
func (c *Certificates) stat() [3]os.FileInfo {
	var infos [3]os.FileInfo
	for i, path := range []string{c.files.CAFile, c.files.CertFile, c.files.KeyFile} {
		if info, err := os.Stat(path); err == nil {
			infos[i] = info
		}
	}
	return infos
}

func sameFiles(a, b [3]os.FileInfo) bool {
	for i := range a {
		switch {
		case a[i] == nil && b[i] == nil:
		case a[i] == nil || b[i] == nil:
			return false
		case !os.SameFile(a[i], b[i]) || !a[i].ModTime().Equal(b[i].ModTime()) || a[i].Size() != b[i].Size():
			return false
		}
	}
	return true
}

func (f Files) read() (*identity, error) {
	authorities, err := readFile(f.Names.CA, "the certificate authority", f.CAFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, fmt.Errorf("%s: no certificate in %s: %w", called(f.Names.CA, "the certificate authority"), f.CAFile, errdefs.ErrInvalidArgument)
	}
	certificate, err := readFile(f.Names.Cert, "the certificate", f.CertFile)
	if err != nil {
		return nil, err
	}
	key, err := readFile(f.Names.Key, "the key", f.KeyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s %s and %s %s: %w: %w", called(f.Names.Cert, "certificate"), f.CertFile,
			called(f.Names.Key, "key"), f.KeyFile, err, errdefs.ErrInvalidArgument)
	}
	return &identity{certificate: pair, authorities: pool}, nil
}

// readFile reads a file that has a name or else a description.
func readFile(name, description, path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", called(name, description), err)
	}
	return content, nil
}

func called(name, description string) string {
	if name == "" {
		return description
	}
	return name
}
