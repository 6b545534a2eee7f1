// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Certificates of a testbed outlive any demo, and start before now for machines whose clocks disagree.
const (
	certificateLife = 365 * 24 * time.Hour
	certificateSkew = time.Hour
)

// An authority signs certificates. It is read from files each time it is needed, so that a testbed can be opened again.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// subject is who a certificate is for: a client if it has no addresses, else a server too.
type subject struct {
	name   string
	groups []string
	ips    []netip.Addr
	dns    []string
}

// keyPair is where a certificate and its key are.
type keyPair struct{ cert, key string }

func (c *Cluster) pair(name string) keyPair {
	dir := filepath.Join(c.StateDir(), "pki")
	return keyPair{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key")}
}

// createAuthority makes a self-signed authority and writes it to files.
func createAuthority(name string, files keyPair) error {
	key, err := newKey(files.key)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	return writeCertificate(files.cert, template, authority{cert: template, key: key}, key)
}

func readAuthority(files keyPair) (authority, error) {
	certPEM, err := os.ReadFile(files.cert)
	if err != nil {
		return authority{}, fmt.Errorf("reading authority: %w", err)
	}
	keyPEM, err := os.ReadFile(files.key)
	if err != nil {
		return authority{}, fmt.Errorf("reading authority: %w", err)
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return authority{}, fmt.Errorf("reading authority: %s or its key is not PEM", files.cert)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return authority{}, fmt.Errorf("reading authority %s: %w", files.cert, err)
	}
	key, err := x509.ParseECPrivateKey(keyBlock.Bytes)
	if err != nil {
		return authority{}, fmt.Errorf("reading the key of authority %s: %w", files.cert, err)
	}
	return authority{cert: cert, key: key}, nil
}

// issue makes a key and a certificate for it and writes both to files.
func (a authority) issue(s subject, files keyPair) error {
	key, err := newKey(files.key)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: s.name, Organization: s.groups},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		DNSNames:    s.dns,
	}
	for _, ip := range s.ips {
		template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
	}
	if len(s.ips)+len(s.dns) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	return writeCertificate(files.cert, template, a, key)
}

func writeCertificate(file string, template *x509.Certificate, by authority, key crypto.Signer) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return fmt.Errorf("making certificate: %w", err)
	}
	now := time.Now()
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, now.Add(-certificateSkew), now.Add(certificateLife)
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
	if err != nil {
		return fmt.Errorf("making certificate for %s: %w", template.Subject, err)
	}
	return writePEM(file, "CERTIFICATE", der, 0o644)
}

func newKey(file string) (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding key: %w", err)
	}
	return key, writePEM(file, "EC PRIVATE KEY", der, 0o600)
}

// writePublicKey writes the public half of the key of a pair next to it.
func writePublicKey(key crypto.Signer, file string) error {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return fmt.Errorf("encoding public key: %w", err)
	}
	return writePEM(file, "PUBLIC KEY", der, 0o644)
}

func writePEM(file, kind string, der []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// createPKI makes all authorities and the control plane's certificates.
func (c *Cluster) createPKI() error {
	for name, file := range map[string]string{"tombolo-testbed": "ca", "tombolo-testbed-front-proxy": "front-proxy-ca"} {
		if err := createAuthority(name, c.pair(file)); err != nil {
			return err
		}
	}
	key, err := newKey(c.pair("service-account").key)
	if err != nil {
		return err
	}
	if err := writePublicKey(key, c.pair("service-account").cert); err != nil {
		return err
	}
	ca, err := readAuthority(c.pair("ca"))
	if err != nil {
		return err
	}
	frontProxyCA, err := readAuthority(c.pair("front-proxy-ca"))
	if err != nil {
		return err
	}
	if err := frontProxyCA.issue(subject{name: frontProxyUser}, c.pair("front-proxy")); err != nil {
		return err
	}
	if err := ca.issue(subject{name: kubeletClientUser}, c.pair("kubelet-client")); err != nil {
		return err
	}
	a := c.addresses()
	return ca.issue(subject{
		name: "kube-apiserver",
		ips:  []netip.Addr{a.bridge(), a.firstService(), netip.MustParseAddr("127.0.0.1")},
		dns:  []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
	}, c.pair("kube-apiserver"))
}

// UserKubeconfig returns the path of a kubeconfig with a client certificate of the user and groups, making it unless it
// exists. The groups count when it is made.
func (c *Cluster) UserKubeconfig(user string, groups ...string) (string, error) {
	name := fileName(user)
	file := filepath.Join(c.StateDir(), "kubeconfig", name+".yaml")
	if exists(file) {
		return file, nil
	}
	ca, err := readAuthority(c.pair("ca"))
	if err != nil {
		return "", err
	}
	files := c.pair("client-" + name)
	if err := ca.issue(subject{name: user, groups: groups}, files); err != nil {
		return "", err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["testbed"] = &clientcmdapi.Cluster{Server: c.Server(), CertificateAuthority: c.CAFile()}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificate: files.cert, ClientKey: files.key}
	config.Contexts["testbed"] = &clientcmdapi.Context{Cluster: "testbed", AuthInfo: user}
	config.CurrentContext = "testbed"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return "", fmt.Errorf("writing kubeconfig of %s: %w", user, err)
	}
	return file, nil
}

// NodeKubeconfig returns the path of a kubeconfig with the identity of a node, which the Node authorizer confines to the
// objects of that node's pods.
func (c *Cluster) NodeKubeconfig(node string) (string, error) {
	return c.UserKubeconfig("system:node:"+node, "system:nodes")
}

// ServingCert makes a certificate for a server that the API server connects to as a kubelet, valid for the name and the
// addresses, and returns the files of certificate and key.
func (c *Cluster) ServingCert(name string, ips ...netip.Addr) (certFile, keyFile string, err error) {
	ca, err := readAuthority(c.pair("ca"))
	if err != nil {
		return "", "", err
	}
	files := c.pair("serving-" + fileName(name))
	s := subject{name: "system:node:" + name, groups: []string{"system:nodes"}, ips: ips, dns: []string{name}}
	if err := ca.issue(s, files); err != nil {
		return "", "", err
	}
	return files.cert, files.key, nil
}

// fileName makes a file name of a user or node name.
func fileName(name string) string {
	out := []byte(name)
	for i, b := range out {
		if b == '/' || b == ':' || b == 0 {
			out[i] = '-'
		}
	}
	return string(out)
}
