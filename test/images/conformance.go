// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

// e2eRepository is where Kubernetes' own tests have their images.
const e2eRepository = "registry.k8s.io/e2e-test-images/"

// Conformance returns the images that the node tests of Kubernetes v1.37's own suite refer to. Its list is what
// "e2e.test --list-images" prints; the private and the invalid ones of that are meant to fail.
//
// The shell of all of them is bash: Debian's busybox has one that drops variables whose names have dashes, which tests pass.
func Conformance(p Programs) ([]Image, error) {
	base := userland(p)
	agnhost, err := conformanceAgnhost(p, base)
	if err != nil {
		return nil, err
	}
	extended := func(of Image, settings func(*Settings), name string, files ...File) Image {
		i := Image{Names: []string{e2eRepository + name}, Layers: append(append([]Layer{}, of.Layers...), files), Settings: of.Settings}
		settings(&i.Settings)
		return i
	}
	busybox := busyboxImage(base)
	nginx := extended(busybox, func(s *Settings) { s.Cmd = strings.Fields("httpd -f -p 80 -h /www") }, "nginx:1.27.0-2",
		File{Path: "/www/index.html", Mode: 0o644, Data: "A web server that stands for nginx.\n"})
	nginx.Names = append(nginx.Names, e2eRepository+"nginx:1.28.0-2")
	return []Image{
		pauseImage(p), busybox, agnhost, nginx,
		extended(busybox, func(s *Settings) { s.User = "1234" }, "nonroot:1.5"),
		extended(busybox, func(s *Settings) { s.Cmd = []string{"nnp"} }, "nonewprivs:1.4",
			File{Path: "/usr/local/bin/nnp", Source: p.Userland, Mode: 0o4755}),
		// The C library of Debian's static busybox is glibc.
		extended(busybox, func(*Settings) {}, "glibc-dns-testing:2.1.1",
			File{Path: "/etc/nsswitch.conf", Mode: 0o644, Data: "hosts: files dns\n"}),
		petImage(agnhost, "kitten"), petImage(agnhost, "nautilus"),
	}, nil
}

// conformanceAgnhost is agnhost with the programs and the certificate tests use in it.
func conformanceAgnhost(p Programs, base Layer) (Image, error) {
	cert, key, err := localhostCertificate()
	if err != nil {
		return Image{}, err
	}
	image := agnhostImage(p, base)
	image.Names = append(image.Names, e2eRepository+"agnhost:2.55")
	image.Layers = append(image.Layers, Layer{
		{Path: "/usr/local/bin/curl", Source: p.Userland},
		{Path: "/localhost.crt", Mode: 0o644, Data: cert},
		{Path: "/localhost.key", Mode: 0o644, Data: key},
	})
	return image, nil
}

// petImage is agnhost with a picture, which tests tell from another by its name only.
func petImage(agnhost Image, name string) Image {
	settings := agnhost.Settings
	settings.Cmd = []string{"test-webserver"}
	return Image{
		Names: []string{e2eRepository + name + ":1.8"},
		Layers: append(append([]Layer{}, agnhost.Layers...), Layer{
			{Path: "/" + name + ".jpg", Mode: 0o644, Data: "not a picture\n"},
			{Path: "/data.json", Mode: 0o644, Data: fmt.Sprintf("{\n  \"image\": %q\n}\n", name+".jpg")},
			// What the original is based on; a test looks for it.
			{Path: "/etc/os-release", Mode: 0o644, Data: "NAME=\"Alpine Linux\"\nID=alpine\n"},
		}),
		Settings: settings,
	}
}

// localhostCertificate makes the certificate of agnhost's TLS servers, which clients do not verify. It is the same each time.
func localhostCertificate() (cert, key string, err error) {
	private := ed25519.NewKeyFromSeed([]byte("a key that is not meant to be se")) // of 32 bytes
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: created, NotAfter: created.Add(100 * 365 * 24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	// An Ed25519 signature takes nothing from the source of randomness.
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", fmt.Errorf("making the certificate of agnhost: %w", err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", fmt.Errorf("encoding the key of agnhost: %w", err)
	}
	block := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return block("CERTIFICATE", der), block("PRIVATE KEY", pkcs8), nil
}
