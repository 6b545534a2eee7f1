// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testVersion = "v1.2.3"

// serving is a program that greets and then returns what it is sent.
const serving = `printf '\ntombolo-host 1 ` + testVersion + `\n'; echo '{"level":"INFO","msg":"serving","args":"'"$*"'"}' >&2; exec cat`

// machine is a host with an SSH server in this process. Commands run here, with a home and a PATH of their own.
type machine struct {
	t       *testing.T
	address string
	key     ssh.Signer
	dir     string
	// client is the key that may log in, clientFile its file.
	client     ssh.Signer
	clientFile string
	// authority is of user certificates, nil for none.
	authority ssh.PublicKey

	mu       sync.Mutex
	conns    []net.Conn
	commands []string
	forwards int
	// hang is a step at which the server stops answering.
	hang string
	// sessions is how many sessions are opened before it stops answering, zero for any number.
	sessions, opened int
	// cut ends the connection after so many bytes of an upload.
	cut int64
}

func newKey(t *testing.T) (ssh.Signer, ed25519.PrivateKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return signer, private
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	// No fork may inherit the open file, or it could not be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func writeKey(t *testing.T, name string, key ed25519.PrivateKey) string {
	t.Helper()
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return write(t, name, string(pem.EncodeToMemory(block)), 0o600)
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, dir: t.TempDir()}
	m.key, _ = newKey(t)
	var private ed25519.PrivateKey
	m.client, private = newKey(t)
	m.clientFile = writeKey(t, filepath.Join(m.dir, "client"), private)
	for _, dir := range []string{m.home(), filepath.Join(m.dir, "bin")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			raw, err := listener.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.conns = append(m.conns, raw)
			m.mu.Unlock()
			wg.Go(func() { m.serve(ctx, raw) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		m.cutAll()
		wg.Wait()
	})
	return m
}

func (m *machine) home() string { return filepath.Join(m.dir, "home") }

// command puts a shell script before the system's own commands.
func (m *machine) command(name, script string) {
	m.t.Helper()
	write(m.t, filepath.Join(m.dir, "bin", name), "#!/bin/sh\n"+script+"\n", 0o755)
}

// cutAll ends every connection.
func (m *machine) cutAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		_ = c.Close()
	}
	m.conns = nil
}

// set changes the machine while its server may be at work.
func (m *machine) set(change func(*machine)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(m)
}

func (m *machine) hangs(step string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hang == step
}

// isOneTooMany counts a session.
func (m *machine) isOneTooMany() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.opened++
	return m.sessions > 0 && m.opened > m.sessions
}

// ran says how many commands had a text in them.
func (m *machine) ran(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, c := range m.commands {
		n += strings.Count(c, text)
	}
	return n
}

func (m *machine) serve(ctx context.Context, raw net.Conn) {
	defer raw.Close()
	if m.hangs("login") {
		<-ctx.Done()
		return
	}
	m.mu.Lock()
	hostKey, client, authority := m.key, m.client, m.authority
	m.mu.Unlock()
	config := &ssh.ServerConfig{PublicKeyCallback: func(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if certificate, ok := key.(*ssh.Certificate); ok && authority != nil {
			checker := ssh.CertChecker{IsUserAuthority: func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), authority.Marshal()) }}
			return checker.Authenticate(meta, certificate)
		}
		if bytes.Equal(key.Marshal(), client.PublicKey().Marshal()) && meta.User() == "edge" {
			return &ssh.Permissions{}, nil
		}
		return nil, errors.New("no")
	}}
	config.AddHostKey(hostKey)
	conn, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		return
	}
	defer conn.Close()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { ssh.DiscardRequests(requests) })
	for channel := range channels {
		switch {
		case m.hangs("session"), channel.ChannelType() == "session" && m.isOneTooMany():
		case channel.ChannelType() == "direct-tcpip":
			wg.Go(func() { m.forward(channel) })
		default:
			wg.Go(func() { m.session(ctx, channel) })
		}
	}
}

// forward is what a jump host does.
func (m *machine) forward(channel ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(channel.ExtraData(), &to); err != nil {
		return
	}
	if m.hangs("forward") {
		_ = channel.Reject(ssh.Prohibited, "open failed")
		return
	}
	out, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		_ = channel.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer out.Close()
	in, requests, err := channel.Accept()
	if err != nil {
		return
	}
	m.mu.Lock()
	m.forwards++
	m.mu.Unlock()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { ssh.DiscardRequests(requests) })
	wg.Go(func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	})
	_, _ = io.Copy(out, in)
	_ = out.Close()
}

func (m *machine) session(ctx context.Context, incoming ssh.NewChannel) {
	channel, requests, err := incoming.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	for request := range requests {
		if request.Type != "exec" {
			_ = request.Reply(false, nil)
			continue
		}
		if m.hangs("command") {
			continue
		}
		var line struct{ Command string }
		if err := ssh.Unmarshal(request.Payload, &line); err != nil {
			return
		}
		_ = request.Reply(true, nil)
		status := m.run(ctx, channel, line.Command)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
		return
	}
}

// run is the login shell with a command.
func (m *machine) run(ctx context.Context, channel ssh.Channel, line string) int {
	m.mu.Lock()
	m.commands = append(m.commands, line)
	cut := m.cut
	m.mu.Unlock()
	cmd := exec.CommandContext(ctx, "sh", "-c", line)
	cmd.Env = []string{"HOME=" + m.home(), "PATH=" + filepath.Join(m.dir, "bin") + ":" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	input, err := cmd.StdinPipe()
	if err != nil {
		return 255
	}
	if err := cmd.Start(); err != nil {
		return 255
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer input.Close()
		switch {
		case cut > 0 && strings.Contains(line, "part."):
			_, _ = io.CopyN(input, channel, cut)
			m.cutAll()
		case m.hangs("upload") && strings.Contains(line, "part."):
			<-ctx.Done()
		default:
			_, _ = io.Copy(input, channel)
		}
	})
	err = cmd.Wait()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.ExitCode()
	}
	// The rest of the input has no reader; the channel is closed by the caller, which ends the copying.
	return 0
}

// lines collects a log.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// options lead to the machine and are right.
func (m *machine) options(program string) Options {
	m.t.Helper()
	address, err := ParseAddress("edge@" + m.address)
	if err != nil {
		m.t.Fatal(err)
	}
	return Options{
		Address:  address,
		HostKeys: HostKeys{Pinned: []string{ssh.FingerprintSHA256(m.key.PublicKey())}},
		Identity: Identity{KeyFile: m.clientFile},
		Binaries: &Binaries{own: write(m.t, filepath.Join(m.t.TempDir(), "tombolo"), "#!/bin/sh\n"+program+"\n", 0o755)},
		Args:     []string{"host", "--stdio", "--root=/var/lib/it's here"},
		Version:  testVersion,
	}
}

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "tcp", address)
}

func newDialer(t *testing.T, o Options) (*Dialer, *lines) {
	t.Helper()
	log := &lines{}
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	d, err := New(o, dialTCP)
	if err != nil {
		t.Fatal(err)
	}
	d.patience.jitter = func(below time.Duration) time.Duration { return -4 * below } // tests put things right and try again at once
	return d, log
}

// connect dials and closes the connection at the end of the test.
func connect(t *testing.T, d *Dialer) net.Conn {
	t.Helper()
	conn, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// echo sends a text and wants it back.
func echo(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	back := make([]byte, len(text))
	if _, err := io.ReadFull(conn, back); err != nil || string(back) != text {
		t.Fatalf("%q came back as %q, %v", text, back, err)
	}
}

// refused dials and wants an error with each of some texts.
func refused(t *testing.T, d *Dialer, want ...string) error {
	t.Helper()
	conn, err := d.Dial(t.Context())
	if err == nil {
		_ = conn.Close()
		t.Fatalf("connected, want an error with %q", want)
	}
	for _, text := range want {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q\nhas no %q", err, text)
		}
	}
	return err
}
