// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// cached returns the programs in the machine's cache.
func (m *machine) cached() []string {
	m.t.Helper()
	found, err := filepath.Glob(filepath.Join(m.home(), ".cache/tombolo/*/*"))
	if err != nil {
		m.t.Fatal(err)
	}
	return found
}

func TestProgramIsUploadedOnceAndStartedForEachConnection(t *testing.T) {
	m := newMachine(t)
	d, log := newDialer(t, m.options(serving))
	for range 3 {
		conn := connect(t, d)
		echo(t, conn, "hello\n")
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after close: %v", err)
		}
	}
	if uploads := m.ran("umask"); uploads != 1 {
		t.Errorf("%d uploads", uploads)
	}
	files := m.cached()
	if len(files) != 1 {
		t.Fatalf("in the cache: %q", files)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("program: %v, %v", info, err)
	}
	if got := log.String(); !strings.Contains(got, "text=serving") || !strings.Contains(got, "it's here") {
		t.Errorf("log: %s", got)
	}
}

func TestProgramEndsWithItsConnection(t *testing.T) {
	m := newMachine(t)
	over := filepath.Join(m.dir, "over")
	d, _ := newDialer(t, m.options(strings.ReplaceAll(serving, "exec cat", "cat; touch "+over)))
	conn := connect(t, d)
	echo(t, conn, "x")
	_ = conn.Close()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(over); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the program did not see the end of its input")
		}
	}
}

func TestWhatIsInTheCacheIsNotTrusted(t *testing.T) {
	m := newMachine(t)
	d, log := newDialer(t, m.options(serving))
	_ = connect(t, d).Close()
	file := m.cached()[0]
	ran := filepath.Join(m.dir, "ran")
	write(t, file, "#!/bin/sh\ntouch "+ran+"\n", 0o700)
	echo(t, connect(t, d), "again")
	if _, err := os.Stat(ran); err == nil {
		t.Error("the wrong program was run")
	}
	if !strings.Contains(log.String(), "reason=differs") {
		t.Errorf("log: %s", log)
	}
	dir := filepath.Dir(file)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	refused(t, d, dir, "others can write there", "--host-ssh-cache-dir")
}

func TestUploadThatWasCutIsRepaired(t *testing.T) {
	m := newMachine(t)
	program := serving + "\n" + strings.Repeat("# a long program\n", 100_000)
	d, _ := newDialer(t, m.options(program))
	m.set(func(m *machine) { m.cut = 300_000 })
	refused(t, d, "putting the program on the host")
	m.set(func(m *machine) { m.cut = 0 })
	// One left by a host that lost power; no process has such an id.
	if _, err := os.Stat(filepath.Join(m.home(), ".cache/tombolo")); err != nil {
		t.Fatal(err)
	}
	stale := write(t, filepath.Join(m.home(), ".cache/tombolo", d.sum(t), "part.99999999"), "half", 0o600)
	echo(t, connect(t, d), "whole")
	if _, err := os.Stat(stale); err == nil {
		t.Error("a part of an old upload is still there")
	}
}

// sum is the checksum of the program.
func (d *Dialer) sum(t *testing.T) string {
	t.Helper()
	program, err := d.o.Binaries.read(d.o.Binaries.own, "")
	if err != nil {
		t.Fatal(err)
	}
	return program.sum
}

func TestOldProgramsAreRemovedAndNothingElse(t *testing.T) {
	m := newMachine(t)
	other := write(t, filepath.Join(m.home(), ".cache/tombolo", "keep me"), "x", 0o600)
	if err := os.Chmod(filepath.Dir(other), 0o700); err != nil {
		t.Fatal(err)
	}
	var sums []string
	for i, version := range []string{"one", "two", "three", "four"} {
		d, _ := newDialer(t, m.options(serving+"\n# "+version))
		_ = connect(t, d).Close()
		sums = append(sums, d.sum(t))
		// Directories are ordered by time; make sure that there is one.
		dir := filepath.Join(m.home(), ".cache/tombolo", sums[i])
		when := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(dir, when, when); err != nil {
			t.Fatal(err)
		}
	}
	files := m.cached()
	if len(files) != 2 || !strings.Contains(strings.Join(files, " "), sums[3]) || !strings.Contains(strings.Join(files, " "), sums[2]) {
		t.Errorf("in the cache: %q, want the last two of %q", files, sums)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func TestFailuresOnTheHostAreToldWithARemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		program string
		change  func(*machine, *Options)
		want    []string
	}{
		"the program fails": {
			"echo 'Error: the root directory /x is in use by another tombolo process (pid 7)' >&2; exit 1", nil,
			[]string{"exit status 1", "pid 7", "--root-dir"},
		},
		"the program is not root": {"echo 'Error: mkdir /var/lib/tombolo: permission denied' >&2; exit 1", nil, []string{"--host-ssh-sudo"}},
		"the program is killed":   {"kill -9 $$", nil, []string{"said nothing"}},
		"another version":         {strings.ReplaceAll(serving, testVersion, "v9"), nil, []string{"v9", testVersion, "--host-ssh-binary-dir"}},
		"a chatty shell":          {"yes", nil, []string{"start files", `"y\ny\n`}},
		"sudo asks": {serving, func(m *machine, o *Options) {
			o.Sudo = true
			m.command("sudo", `test "$1" = -n && echo "sudo: a password is required" >&2; exit 1`)
		}, []string{"sudo asks for a password", "edge ALL=(root) NOPASSWD: ALL"}},
		"no sudo": {serving, func(m *machine, o *Options) {
			o.Sudo = true
			m.command("sudo", `echo "sh: 1: exec: sudo: not found" >&2; exit 127`)
		}, []string{"there is no sudo", "--host-ssh-sudo"}},
		"another system": {serving, func(m *machine, _ *Options) { m.command("uname", "echo Darwin arm64") }, []string{`"Darwin"`, "only Linux"}},
		"another architecture": {serving, func(m *machine, _ *Options) { m.command("uname", "echo Linux riscv64") },
			[]string{"linux/riscv64", "--host-ssh-binary-dir", "tombolo-linux-riscv64"}},
		"another architecture, not in the directory": {serving, func(m *machine, o *Options) {
			m.command("uname", "echo Linux riscv64")
			o.Binaries.Dir = m.dir
		}, []string{filepath.Join("tombolo-linux-riscv64"), "GOARCH=riscv64"}},
		"a file of the wrong architecture": {serving, func(m *machine, o *Options) {
			m.command("uname", "echo Linux riscv64")
			own, err := os.ReadFile("/proc/self/exe")
			if err != nil {
				m.t.Fatal(err)
			}
			o.Binaries.Dir = m.dir
			write(m.t, filepath.Join(m.dir, "tombolo-linux-riscv64"), string(own), 0o755)
		}, []string{"tombolo-linux-riscv64 is no program for linux/riscv64"}},
		"an unknown architecture": {serving, func(m *machine, _ *Options) { m.command("uname", "echo Linux vax") }, []string{`"vax"`}},
		"a forced command":        {serving, func(m *machine, _ *Options) { m.command("sh", "echo no") }, []string{"forced in authorized_keys"}},
		"no sha256sum": {serving, func(m *machine, _ *Options) {
			m.command("sha256sum", "echo 'sh: sha256sum: not found' >&2; exit 127")
		}, []string{"no sha256sum on the host"}},
		"a full disk": {serving, func(m *machine, _ *Options) {
			m.command("cat", "echo 'cat: write error: No space left on device' >&2; exit 1")
		}, []string{"make room"}},
		"bytes that change on the way": {serving, func(m *machine, _ *Options) { m.command("cat", "tr a b") }, []string{"is not what was sent"}},
		"a program that vanishes":      {serving, func(m *machine, _ *Options) { m.command("touch", `rm -rf "$1"/tombolo`) }, []string{"is still not there"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			o := m.options(tc.program)
			if tc.change != nil {
				tc.change(m, &o)
			}
			d, _ := newDialer(t, o)
			err := refused(t, d, tc.want...)
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("several lines: %q", err)
			}
		})
	}
}

func TestSudoRunsTheProgram(t *testing.T) {
	m := newMachine(t)
	m.command("sudo", `test "$1 $2" = "-n --" || exit 1; shift 2; echo "as root: $1" >&2; exec "$@"`)
	o := m.options(serving)
	o.Sudo = true
	d, log := newDialer(t, o)
	echo(t, connect(t, d), "x")
	if !strings.Contains(log.String(), "as root: "+m.cached()[0]) {
		t.Errorf("log: %s", log)
	}
}

func TestShellThatTalksIsHeardOver(t *testing.T) {
	m := newMachine(t)
	m.command("uname", "echo Welcome; /bin/uname $@")
	d, _ := newDialer(t, m.options("printf 'no end of line'; "+serving))
	if _, err := d.Dial(t.Context()); err == nil || !strings.Contains(err.Error(), "Welcome") {
		t.Errorf("uname that says something else: %v", err)
	}
	m.command("uname", "/bin/uname $@")
	echo(t, connect(t, d), "x")
}

func TestServerThatHangsIsGivenUp(t *testing.T) {
	for _, step := range []string{"login", "session", "command", "upload", "uname", "start"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			program := serving
			m.set(func(m *machine) { m.hang = step })
			switch step {
			case "uname":
				m.command("uname", "while :; do sleep 100; done")
			case "start":
				program = `echo '{"level":"INFO","msg":"waiting for something"}' >&2; while :; do sleep 100; done`
			}
			d, _ := newDialer(t, m.options(program+"\n"+strings.Repeat("# a program that is larger than a window\n", 200_000)))
			limit := time.Second
			if step == "start" || step == "upload" {
				limit = 5 * time.Second // what comes before has to be done in time
			}
			d.limits = limits{step: limit, start: limit, stall: limit}
			want := []string{"no answer within"}
			if step == "start" {
				want = append(want, "the host said last: waiting for something")
			}
			refused(t, d, want...)
		})
	}
}

// TestServerThatOpensNoFurtherSessionIsGivenUp: the program is started in the second one and uploaded in the third.
func TestServerThatOpensNoFurtherSessionIsGivenUp(t *testing.T) {
	for _, sessions := range []int{1, 2} {
		m := newMachine(t)
		m.set(func(m *machine) { m.sessions = sessions })
		d, _ := newDialer(t, m.options(serving))
		d.limits.step = time.Second
		refused(t, d, "opening a session on the host", "no answer within")

		m.set(func(m *machine) { m.opened = 0 })
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		d.limits.step = time.Hour
		if _, err := d.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d sessions: %v", sessions, err)
		}
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	m := newMachine(t)
	m.set(func(m *machine) { m.hang = "session" })
	d, _ := newDialer(t, m.options(serving))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d.dial = func(ctx context.Context, address string) (net.Conn, error) {
		defer time.AfterFunc(time.Millisecond, cancel)
		return dialTCP(ctx, address)
	}
	if _, err := d.Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestConnectionTellsWhyItEnded(t *testing.T) {
	m := newMachine(t)
	d, _ := newDialer(t, m.options(strings.ReplaceAll(serving, "exec cat", "read x; echo \"Error: $x\" >&2; exit 3")))
	conn := connect(t, d)
	if _, err := io.WriteString(conn, "out of order\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(conn); err == nil || !strings.Contains(err.Error(), "exit status 3: Error: out of order") {
		t.Errorf("got %v", err)
	}
	m2 := newMachine(t)
	d, _ = newDialer(t, m2.options(serving))
	conn = connect(t, d)
	echo(t, conn, "x")
	m2.cutAll()
	if _, err := io.ReadAll(conn); err == nil || !strings.Contains(err.Error(), "the SSH connection ended") {
		t.Errorf("got %v", err)
	}
}

func TestDeadlineEndsTheConnection(t *testing.T) {
	m := newMachine(t)
	d, _ := newDialer(t, m.options(serving))
	conn := connect(t, d)
	echo(t, conn, "x")
	if err := conn.SetDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		t.Error(err)
	}
	echo(t, conn, "y")
	if err := conn.SetReadDeadline(time.Now()); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestProgramThatFallsSilent: it greets and then says nothing, so it does not serve.
func TestProgramThatFallsSilent(t *testing.T) {
	m := newMachine(t)
	d, _ := newDialer(t, m.options(serving))
	d.limits.step = 5 * time.Second
	conn := connect(t, d)
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// TestHostWithoutRoomIsSentNothing: it tells how much is missing instead.
func TestHostWithoutRoomIsSentNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		df   string
		want string // "" if the program is sent
	}{
		"too little":          {`echo Filesystem; echo "/dev/sda 1 of 2   4000  3900      7      98% /home"`, "7 KiB are free"},
		"enough":              {`echo Filesystem; echo "/dev/sda 4000000 39000 3961000 1% /home/my 3 5% x"`, ""},
		"it does not tell":    {"exit 1", ""},
		"something else":      {"echo no; echo idea", ""},
		"none at all":         {`echo Filesystem; echo "tmpfs 4 4 0 100% /"`, "0 KiB are free"},
		"that of this system": {`exec /bin/df "$@"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.command("df", tc.df)
			read := filepath.Join(m.dir, "read")
			m.command("cat", "touch "+read+"; exec /bin/cat")
			d, _ := newDialer(t, m.options(strings.ReplaceAll(serving, "exec cat", "exec /bin/cat")+"\n"+strings.Repeat("# 16 KiB at least\n", 1024)))
			if tc.want == "" {
				_ = connect(t, d).Close()
				return
			}
			refused(t, d, tc.want, "KiB are missing", "make room", "--host-ssh-cache-dir")
			if _, err := os.Stat(read); err == nil {
				t.Error("the program was sent")
			}
		})
	}
}

func TestProgramThatIsPutThereOrStartedInVainIsTriedEverMoreRarely(t *testing.T) {
	for name, tc := range map[string]struct {
		program string
		change  func(*machine)
		most    time.Duration
	}{
		"a full disk": {serving, func(m *machine) {
			m.command("cat", "/bin/cat >/dev/null; echo 'cat: write error: No space left on device' >&2; exit 1")
		}, maxUploadPause},
		"bytes that change on the way": {serving, func(m *machine) { m.command("cat", "tr a b") }, maxUploadPause},
		"no room":                      {serving, func(m *machine) { m.command("df", `echo F; echo "x 4 4 0 100% /"`) }, maxRefusalPause},
		"a program that fails":         {"echo 'Error: no' >&2; exit 1", func(*machine) {}, maxRefusalPause},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			tc.change(m)
			d, _ := newDialer(t, m.options(tc.program))
			d.patience.pause = time.Hour
			refused(t, d)
			if d.patience.pause != tc.most {
				t.Errorf("after many attempts the pause is %v, want %v", d.patience.pause, tc.most)
			}
		})
	}
}
