// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"crypto/ed25519"
	"crypto/rand"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// known writes a known_hosts file.
func known(t *testing.T, text ...string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "known_hosts"), strings.Join(text, "\n")+"\n", 0o600)
}

// line is the machine's line in such a file.
func (m *machine) line(key ssh.PublicKey) string {
	return knownhosts.Line([]string{knownhosts.Normalize(m.address)}, key)
}

func TestRightHostKeyIsAccepted(t *testing.T) {
	m := newMachine(t)
	key := m.key.PublicKey()
	host, port, _ := net.SplitHostPort(m.address)
	_, authority := newKey(t)
	authoritySigner, err := ssh.NewSignerFromKey(authority)
	if err != nil {
		t.Fatal(err)
	}
	for name, keys := range map[string]HostKeys{
		"fingerprint":         {Pinned: []string{"SHA256:" + strings.Repeat("A", 43), ssh.FingerprintSHA256(key)}},
		"public key":          {Pinned: []string{string(ssh.MarshalAuthorizedKey(key))}},
		"file":                {KnownFiles: []string{known(t, m.line(key))}},
		"hashed":              {KnownFiles: []string{known(t, knownhosts.Line([]string{knownhosts.HashHostname(knownhosts.Normalize(m.address))}, key))}},
		"second file":         {KnownFiles: []string{known(t, "# nothing"), known(t, m.line(key))}},
		"pattern":             {KnownFiles: []string{known(t, "["+host[:3]+"*]:"+port+" "+strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))))}},
		"an authority beside": {KnownFiles: []string{known(t, "@cert-authority *.example.com "+strings.TrimSpace(string(ssh.MarshalAuthorizedKey(authoritySigner.PublicKey()))), m.line(key))}},
	} {
		t.Run(name, func(t *testing.T) {
			o := m.options(serving)
			o.HostKeys = keys
			d, _ := newDialer(t, o)
			echo(t, connect(t, d), "x")
		})
	}
}

func TestHostCertificateIsAccepted(t *testing.T) {
	m := newMachine(t)
	authority, _ := newKey(t)
	host, port, _ := net.SplitHostPort(m.address)
	line := "@cert-authority [127.0.0.*]:" + port + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(authority.PublicKey())))
	o := m.options(serving)
	o.HostKeys = HostKeys{KnownFiles: []string{known(t, line)}}
	d, _ := newDialer(t, o)
	refused(t, d, "line 1 of "+o.HostKeys.KnownFiles[0]) // a plain key is not what the file has
	plain := m.key
	for name, want := range map[string]string{host: "", "other.example.com": "does not make good"} {
		certificate := &ssh.Certificate{
			Key: plain.PublicKey(), CertType: ssh.HostCert, ValidPrincipals: []string{name}, ValidBefore: ssh.CertTimeInfinity,
		}
		if err := certificate.SignCert(rand.Reader, authority); err != nil {
			t.Fatal(err)
		}
		signer, err := ssh.NewCertSigner(certificate, plain)
		if err != nil {
			t.Fatal(err)
		}
		m.set(func(m *machine) { m.key = signer })
		if want != "" {
			refused(t, d, want)
			continue
		}
		echo(t, connect(t, d), "x")
	}
}

func TestWrongHostKeyIsRefusedToldAndCounted(t *testing.T) {
	m := newMachine(t)
	shown := ssh.FingerprintSHA256(m.key.PublicKey())
	other, _ := newKey(t)
	changed := known(t, "# comment", m.line(other.PublicKey()))
	unknown := known(t, "elsewhere.example.com "+strings.TrimSpace(string(ssh.MarshalAuthorizedKey(m.key.PublicKey()))))
	revoked := known(t, "@revoked * "+strings.TrimSpace(string(ssh.MarshalAuthorizedKey(m.key.PublicKey()))), m.line(m.key.PublicKey()))
	for name, tc := range map[string]struct {
		keys HostKeys
		want []string
	}{
		"changed": {HostKeys{KnownFiles: []string{changed}}, []string{"line 2 of " + changed, ssh.FingerprintSHA256(other.PublicKey()), "ssh-keygen -lf"}},
		"unknown": {HostKeys{KnownFiles: []string{unknown}}, []string{unknown, "add the line: " + m.line(m.key.PublicKey())}},
		"revoked": {HostKeys{KnownFiles: []string{revoked}}, []string{"revoked in " + revoked + ":1"}},
		"pinned": {
			HostKeys{Pinned: []string{ssh.FingerprintSHA256(other.PublicKey())}, KnownFiles: []string{known(t, m.line(m.key.PublicKey()))}},
			[]string{"not the pinned " + ssh.FingerprintSHA256(other.PublicKey())},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := m.options(serving)
			o.HostKeys = tc.keys
			registry := prometheus.NewPedanticRegistry()
			o.Registerer = registry
			d, _ := newDialer(t, o)
			refused(t, d, append(tc.want, shown, m.address)...)
			if n := testutil.ToFloat64(d.refused); n != 1 {
				t.Errorf("counted %v", n)
			}
			if m.ran("") > 0 {
				t.Error("a command was run")
			}
		})
	}
}

func TestOnlyTheRightKeyLogsIn(t *testing.T) {
	m := newMachine(t)
	wrong, private := newKey(t)
	o := m.options(serving)
	o.Identity = Identity{KeyFile: writeKey(t, filepath.Join(t.TempDir(), "wrong"), private)}
	d, _ := newDialer(t, o)
	refused(t, d, "edge@"+m.address+" refused the key "+ssh.FingerprintSHA256(wrong.PublicKey())+" of "+o.Identity.KeyFile, "authorized_keys")
	// The file is read again for each connection.
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil || block == nil {
		t.Fatal(err)
	}
	m.set(func(m *machine) { m.client = wrong })
	echo(t, connect(t, d), "x")
}

func TestCertificateLogsIn(t *testing.T) {
	m := newMachine(t)
	authority, _ := newKey(t)
	key, private := newKey(t)
	m.set(func(m *machine) { m.authority = authority.PublicKey() })
	dir := t.TempDir()
	o := m.options(serving)
	o.Identity = Identity{KeyFile: writeKey(t, filepath.Join(dir, "key"), private), CertFile: filepath.Join(dir, "key-cert.pub")}
	issue := func(life time.Duration, by ssh.Signer) {
		now := time.Now()
		certificate := &ssh.Certificate{
			Key: key.PublicKey(), KeyId: "node-1", CertType: ssh.UserCert, ValidPrincipals: []string{"edge"},
			ValidAfter: uint64(now.Add(-2 * time.Hour).Unix()), ValidBefore: uint64(now.Add(life).Unix()),
		}
		if err := certificate.SignCert(rand.Reader, by); err != nil {
			t.Fatal(err)
		}
		write(t, o.Identity.CertFile, string(ssh.MarshalAuthorizedKey(certificate)), 0o600)
	}
	issue(time.Hour, authority)
	d, _ := newDialer(t, o)
	echo(t, connect(t, d), "x")
	issue(-time.Hour, authority)
	refused(t, d, `certificate "node-1" of the key`, "TrustedUserCAKeys", "[edge]")
	stranger, _ := newKey(t)
	issue(time.Hour, stranger)
	refused(t, d, "TrustedUserCAKeys")
}

// serveAgent runs an agent.
func serveAgent(t *testing.T, keys ...ed25519.PrivateKey) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, key := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				_ = agent.ServeAgent(ring, conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return socket
}

func TestAgentLogsIn(t *testing.T) {
	m := newMachine(t)
	_, other := newKey(t)
	key, private := newKey(t)
	m.set(func(m *machine) { m.client = key })
	o := m.options(serving)
	o.Identity = Identity{AgentSocket: serveAgent(t, other, private)}
	d, _ := newDialer(t, o)
	echo(t, connect(t, d), "x")

	o.Identity.AgentSocket = serveAgent(t, other)
	d, _ = newDialer(t, o)
	refused(t, d, "refused the key", "of the agent at "+o.Identity.AgentSocket)
	o.Identity.AgentSocket = serveAgent(t)
	d, _ = newDialer(t, o)
	refused(t, d, "it has no key", "ssh-add")
	o.Identity.AgentSocket = filepath.Join(t.TempDir(), "nobody")
	d, _ = newDialer(t, o)
	refused(t, d, "asking the agent", "nobody")

	silent, err := net.Listen("unix", filepath.Join(t.TempDir(), "silent"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	o.Identity.AgentSocket = silent.Addr().String()
	d, _ = newDialer(t, o)
	d.limits.step = time.Second
	refused(t, d, "no answer within")
}

// through makes a dialer over a chain of jump hosts.
func through(t *testing.T, m *machine, jumps ...*machine) (*Dialer, Options) {
	t.Helper()
	o := m.options(serving)
	text := []string{m.line(m.key.PublicKey())}
	for _, jump := range jumps {
		jump.set(func(jump *machine) { jump.client = m.client })
		address, err := ParseAddress("edge@" + jump.address)
		if err != nil {
			t.Fatal(err)
		}
		o.Jumps = append(o.Jumps, address)
		text = append(text, jump.line(jump.key.PublicKey()))
	}
	o.HostKeys = HostKeys{KnownFiles: []string{known(t, text...)}}
	d, _ := newDialer(t, o)
	return d, o
}

func TestJumpHostsLeadToTheHost(t *testing.T) {
	m, near, far := newMachine(t), newMachine(t), newMachine(t)
	d, _ := through(t, m, near, far)
	conn := connect(t, d)
	echo(t, conn, "x")
	for i, jump := range []*machine{near, far} {
		jump.set(func(jump *machine) {
			if jump.forwards != 1 {
				t.Errorf("jump host %d forwarded %d times", i, jump.forwards)
			}
		})
	}
	near.cutAll()
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "the SSH connection ended") {
		t.Errorf("after the first jump host was cut off: %v", err)
	}
}

func TestJumpHostsAreCheckedAndTheirFailuresNamed(t *testing.T) {
	t.Run("wrong key of a jump host", func(t *testing.T) {
		m, jump := newMachine(t), newMachine(t)
		d, o := through(t, m, jump)
		other, _ := newKey(t)
		jump.set(func(m *machine) { m.key = other })
		refused(t, d, jump.address, ssh.FingerprintSHA256(other.PublicKey()), o.HostKeys.KnownFiles[0])
	})
	t.Run("wrong key of the host behind it", func(t *testing.T) {
		m, jump := newMachine(t), newMachine(t)
		d, _ := through(t, m, jump)
		other, _ := newKey(t)
		m.set(func(m *machine) { m.key = other })
		refused(t, d, m.address, ssh.FingerprintSHA256(other.PublicKey()))
	})
	t.Run("no forwarding", func(t *testing.T) {
		m, jump := newMachine(t), newMachine(t)
		d, _ := through(t, m, jump)
		jump.set(func(m *machine) { m.hang = "forward" })
		refused(t, d, "jump host edge@"+jump.address+" does not forward to "+m.address, "AllowTcpForwarding")
	})
	t.Run("nobody there", func(t *testing.T) {
		m, jump := newMachine(t), newMachine(t)
		d, _ := through(t, m, jump)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		d.o.Address.Port = strings.TrimPrefix(listener.Addr().String(), "127.0.0.1:")
		_ = listener.Close()
		refused(t, d, "jump host edge@"+jump.address+" does not reach", "refused")
	})
}

func TestOptionsThatCannotWorkAreNamedTogether(t *testing.T) {
	m := newMachine(t)
	_, other := newKey(t)
	encrypted, err := ssh.MarshalPrivateKeyWithPassphrase(other, "", []byte("secret"))
	if err != nil {
		t.Fatal(err)
	}
	locked := write(t, filepath.Join(t.TempDir(), "locked"), pemText(encrypted), 0o600)
	public := write(t, filepath.Join(t.TempDir(), "id.pub"), string(ssh.MarshalAuthorizedKey(m.key.PublicKey())), 0o600)
	for name, tc := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"several": {func(o *Options) {
			o.HostKeys, o.Identity, o.CacheDir = HostKeys{Pinned: []string{"x"}}, Identity{KeyFile: "/nowhere/key"}, "relative"
		}, []string{`host key "x" is neither`, "/nowhere/key", `cache directory "relative"`}},
		"nothing to check with": {func(o *Options) { o.HostKeys = HostKeys{} }, []string{"nothing to check the host keys with"}},
		"jump without a file":   {func(o *Options) { o.Jumps = []Address{o.Address} }, []string{"nothing to check the host keys with"}},
		"missing file":          {func(o *Options) { o.HostKeys.KnownFiles = []string{"/nowhere/known"} }, []string{"/nowhere/known"}},
		"broken file":           {func(o *Options) { o.HostKeys.KnownFiles = []string{known(t, "host what ever")} }, []string{"known_hosts:1"}},
		"passphrase":            {func(o *Options) { o.Identity.KeyFile = locked }, []string{locked, "has a passphrase"}},
		"public key":            {func(o *Options) { o.Identity.KeyFile = public }, []string{public, "no private key"}},
		"key as certificate":    {func(o *Options) { o.Identity.CertFile = public }, []string{public, "-cert.pub"}},
		"no certificate":        {func(o *Options) { o.Identity.CertFile = m.clientFile }, []string{m.clientFile, "not one of OpenSSH"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := m.options(serving)
			tc.change(&o)
			_, err := New(o, dialTCP)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in %v", want, err)
				}
			}
			if strings.Contains(err.Error(), "nothing to") && !errdefs.IsInvalidArgument(err) {
				t.Errorf("class of %v", err)
			}
		})
	}
}
