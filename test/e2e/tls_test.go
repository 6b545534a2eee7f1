// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/link/pki"
)

// kubeletAPI asks the node's kubelet API directly, without credentials, and returns the status.
func (k *tester) kubeletAPI(path string) int {
	k.Helper()
	node, err := k.client().CoreV1().Nodes().Get(k.Context(), k.name, metav1.GetOptions{})
	must(k.T, err)
	address := fmt.Sprintf("%s:%d", node.Status.Addresses[0].Address, node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	ca, err := os.ReadFile(k.env.cluster.CAFile())
	must(k.T, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(k.Context(), usual)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+path, nil)
	must(k.T, err)
	resp, err := (&http.Client{Transport: transport}).Do(request)
	must(k.T, err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// clientCertificates are certificates that callers of a host may show.
type clientCertificates struct {
	roots                                          *x509.CertPool
	right, expired, foreign, wrongUsage, otherNode tls.Certificate
}

// makeCertificates makes certificates by the link's own authority and by another one of the same name.
func (e *environment) makeCertificates(t *testing.T) clientCertificates {
	t.Helper()
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(e.pki, name))
		must(t, err)
		return data
	}
	authority, err := pki.ParseAuthority(read("ca.crt"), read("ca.key"))
	must(t, err)
	stranger, err := pki.NewAuthority("tombolo", pki.Lifetime{From: time.Now(), Validity: 2 * time.Hour})
	must(t, err)
	pair := func(p *pki.Pair, err error) tls.Certificate {
		must(t, err)
		c, err := tls.X509KeyPair(p.CertificatePEM, p.KeyPEM)
		must(t, err)
		return c
	}
	now := pki.Lifetime{From: time.Now(), Validity: time.Hour}
	past := pki.Lifetime{From: time.Now().Add(-48 * time.Hour), Validity: time.Hour}
	c := clientCertificates{
		roots:      x509.NewCertPool(),
		right:      pair(authority.IssueNode("calm", now)),
		expired:    pair(authority.IssueNode("calm", past)),
		foreign:    pair(stranger.IssueNode("calm", now)),
		wrongUsage: pair(authority.IssueHost("calm", []string{"127.0.0.1"}, now)),
		otherNode:  pair(authority.IssueNode("storm", now)),
	}
	c.roots.AppendCertsFromPEM(read("ca.crt"))
	return c
}

// TestHostAnswersNobodyItDoesNotKnow: the connection ends without an answer, and the host's log says why.
func TestHostAnswersNobodyItDoesNotKnow(t *testing.T) {
	t.Parallel()
	e := require(t)
	e.calm.requireTLS(t)
	certs := e.makeCertificates(t)
	for _, tc := range []struct {
		name   string
		config *tls.Config // nil: no TLS
		says   string      // in the host's log
	}{
		{"no certificate", &tls.Config{}, "didn't provide a certificate"},
		{"an expired certificate", &tls.Config{Certificates: []tls.Certificate{certs.expired}}, "expired"},
		{"a certificate of another authority", &tls.Config{Certificates: []tls.Certificate{certs.foreign}}, "unknown authority"},
		{"a certificate for serving", &tls.Config{Certificates: []tls.Certificate{certs.wrongUsage}}, "usage"},
		{"a certificate of another node", &tls.Config{Certificates: []tls.Certificate{certs.otherNode}}, "only calm may lead this host"},
		{"an old version of TLS", &tls.Config{Certificates: []tls.Certificate{certs.right}, MaxVersion: tls.VersionTLS12}, "version"},
		{"plain HTTP", nil, "plain HTTP"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begin := len(e.calm.hostLog(t))
			answer, err := e.calm.call(t, tc.config, certs.roots)
			if err == nil || len(answer) > 0 {
				t.Errorf("the host answered %q (%v)", answer, err)
			}
			eventually(t, usual, "a line in the host's log that says why: "+tc.says, func() error {
				if added := e.calm.hostLog(t)[begin:]; !strings.Contains(added, tc.says) {
					return fmt.Errorf("there is only %q", added)
				}
				return nil
			})
		})
	}
	t.Run("the right certificate", func(t *testing.T) {
		answer, err := e.calm.call(t, &tls.Config{Certificates: []tls.Certificate{certs.right}}, certs.roots)
		if err != nil || len(answer) == 0 {
			t.Errorf("the host did not answer: %v", err)
		}
	})
}

func (s *site) hostLog(t *testing.T) string {
	t.Helper()
	process := s.hostProc
	if process == nil { // the node has the host's lines in its own log
		process = s.nodeProc
	}
	data, err := os.ReadFile(process.LogFile())
	must(t, err)
	return string(data)
}

// call connects to the host, says hello as HTTP/2 clients do, and returns the beginning of what the host answers once the
// connection is secure.
func (s *site) call(t *testing.T, config *tls.Config, roots *x509.CertPool) ([]byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.linkAddress())
	must(t, err)
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	must(t, conn.SetDeadline(deadline))
	hello := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	if config == nil {
		_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		answer, err := io.ReadAll(conn)
		if strings.HasPrefix(string(answer), "HTTP") {
			return answer, nil
		}
		return nil, fmt.Errorf("%w and %d bytes that are not HTTP", err, len(answer))
	}
	config.RootCAs, config.NextProtos, config.ServerName = roots, []string{"h2"}, s.host.Address().String()
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	// In TLS 1.3 the client has finished before the server looked at its certificate.
	if _, err := io.WriteString(secure, hello); err != nil {
		return nil, err
	}
	answer := make([]byte, 64)
	n, err := secure.Read(answer)
	return answer[:n], err
}

// TestNodeSaysWhyItsHostIsNotReached: the other end of the same.
func TestNodeSaysWhyItsHostIsNotReached(t *testing.T) {
	t.Parallel()
	e := require(t)
	e.calm.requireTLS(t)
	certs := e.makeCertificates(t)
	dir := t.TempDir()
	for _, tc := range []struct {
		name, says string
		node       tls.Certificate
		stranger   bool // the node trusts another authority than the host's
	}{
		{name: "expired", says: "expired", node: certs.expired},
		{name: "foreign", says: "certificate", node: certs.foreign},
		{name: "distrust", says: "unknown authority", node: certs.right, stranger: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &site{env: e, name: "lost-" + tc.name, host: e.calm.host}
			must(t, s.prepareNode(t.Context()))
			files := map[string]string{}
			for kind, data := range map[string][]byte{"cert": certificatePEM(tc.node), "key": keyPEM(t, tc.node)} {
				files[kind] = filepath.Join(dir, tc.name+"."+kind)
				must(t, os.WriteFile(files[kind], data, 0o600))
			}
			files["ca"] = filepath.Join(e.pki, "ca.crt")
			if tc.stranger {
				other, err := pki.NewAuthority("tombolo", pki.Lifetime{From: time.Now(), Validity: time.Hour})
				must(t, err)
				files["ca"] = filepath.Join(dir, "other.crt")
				must(t, os.WriteFile(files["ca"], other.Pair().CertificatePEM, 0o600))
			}
			s.nodeCommand = append(s.nodeCommand, "--host-ca-file", files["ca"], "--host-cert-file", files["cert"], "--host-key-file", files["key"])
			must(t, s.startNode())
			t.Cleanup(func() {
				if err := s.nodeProc.Kill(); err != nil {
					t.Error(err)
				}
				_ = e.cluster.Client().CoreV1().Nodes().Delete(context.Background(), s.name, metav1.DeleteOptions{})
				if t.Failed() {
					t.Logf("log of tombolo node: %s\n%s", s.nodeProc.LogFile(), s.nodeProc.LogTail(10))
				}
			})
			eventually(t, usual, "a line in the node's log that says why: "+tc.says, func() error {
				data, err := os.ReadFile(s.nodeProc.LogFile())
				if err == nil && !strings.Contains(string(data), tc.says) {
					return errNotYet
				}
				return err
			})
			if c, err := s.readyCondition(t.Context()); err == nil && c.Status == v1.ConditionTrue {
				t.Errorf("the node is Ready: %+v", c)
			}
		})
	}
}

func certificatePEM(c tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]})
}

func keyPEM(t *testing.T, c tls.Certificate) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
