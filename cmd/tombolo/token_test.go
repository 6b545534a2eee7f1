// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"

	"github.com/tombolo-dev/tombolo/provider/hostconn"
)

// joinable is a node's end that hosts join.
func joinable(t *testing.T) (c *hostconn.Connection, address, dir string) {
	t.Helper()
	return joinableHost(t, "edge-1")
}

func joinableAs(t *testing.T, name string) (address, dir string) {
	t.Helper()
	_, address, dir = joinableHost(t, name)
	return address, dir
}

func joinableHost(t *testing.T, name string) (c *hostconn.Connection, address, dir string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = listener.Addr().String()
	_ = listener.Close()
	dir = filepath.Join(t.TempDir(), "join")
	c, err = hostconn.Connect(hostconn.Options{Target: "reverse://" + name, Listen: address, Join: hostconn.Join{Dir: dir, Validity: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c, address, dir
}

func TestHostJoinsByATokenAndServesItsNode(t *testing.T) {
	c, address, dir := joinable(t)
	code, out, errs := execute("token", "create", "--join-dir", dir, "--endpoint", address)
	command := strings.Fields(out)
	if code != exitSuccess || len(command) != 4 || !strings.HasSuffix(out, "@"+address+"\n") {
		t.Fatalf("exit %d, %q, %s", code, out, errs)
	}
	root := filepath.Join(t.TempDir(), "root")
	if code, out, errs = execute(append(command[1:], "--root", root)...); code != exitSuccess || !strings.Contains(out, "This host is edge-1") || !strings.Contains(out, "tombolo host --connect "+address) {
		t.Fatalf("exit %d, %q, %s", code, out, errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log := &output{}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"host", "--connect", address, "--root", root, "--pod-logs-dir", filepath.Join(root, "logs"), "--containerd", filepath.Join(root, "c.sock")},
			func(string) (string, bool) { return "", false }, nil, nil, log)
	}()
	awaitFacts(t, c)
	if code, out, _ := execute("token", "list", "--join-dir", dir); code != exitSuccess || !strings.Contains(out, "used 20") || !strings.Contains(out, "token ") {
		t.Errorf("exit %d, %q", code, out)
	}
	// The same token once more.
	if code, _, errs := execute(append(command[1:], "--root", root)...); code != exitFailure || !strings.Contains(errs, "the token was used already") || strings.Contains(errs, command[3]) {
		t.Errorf("exit %d, %s", code, errs)
	}
	if code, out, errs := execute("token", "revoke", "--join-dir", dir); code != exitSuccess || out != "1 certificates and 0 tokens are not good any more\n" {
		t.Errorf("exit %d, %q, %s", code, out, errs)
	}
	log.await(t, `the node refuses this host: (certificate) `)
	if _, err := c.Host.Facts(t.Context()); !errdefs.IsUnavailable(err) {
		t.Errorf("facts after the revocation: %v", err)
	}
	cancel()
	if got := <-ended; got != exitSuccess {
		t.Errorf("exit %d:\n%s", got, log)
	}
}

func TestHostThatJoinedItsNodeIsForNoOther(t *testing.T) {
	_, address, dir := joinable(t)
	_, token, _ := execute("token", "create", "--join-dir", dir)
	root := t.TempDir()
	if code, _, errs := execute("host", "join", strings.TrimSpace(token)+"@"+address, "--root", root); code != exitSuccess {
		t.Fatalf("exit %d, %s", code, errs)
	}
	args := []string{"host", "--connect", address, "--root", root, "--pod-logs-dir", filepath.Join(root, "logs"), "--containerd", filepath.Join(root, "c.sock")}
	if code, _, errs := execute(append(args, "--node-name", "edge-1")...); code != exitUsage || !strings.Contains(errs, "--node-name is for an authority that several nodes share") {
		t.Errorf("with names: exit %d, %s", code, errs)
	}
	ctx, cancel := context.WithCancel(t.Context())
	log := &output{}
	ended := make(chan int, 1)
	go func() { ended <- run(ctx, args, func(string) (string, bool) { return "", false }, nil, nil, log) }()
	log.await(t, "link is up")
	cancel()
	if got := <-ended; got != exitSuccess || strings.Contains(log.String(), "any node of this authority") {
		t.Errorf("exit %d:\n%s", got, log)
	}
}

func TestWhatKeepsAHostFromJoiningDoesNotUseItsTokenUp(t *testing.T) {
	_, address, dir := joinable(t)
	_, token, _ := execute("token", "create", "--join-dir", dir)
	invitation := strings.TrimSpace(token) + "@" + address
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := execute("host", "join", invitation, "--root", filepath.Join(file, "root")); code != exitFailure || !strings.Contains(errs, file) {
		t.Errorf("a directory that cannot be made: exit %d, %s", code, errs)
	}
	root := t.TempDir()
	if code, out, errs := execute("host", "join", invitation, "--root", root); code != exitSuccess {
		t.Fatalf("exit %d, %q, %s", code, out, errs)
	}
	// A node of another name does not get a host that is somebody already, unless it is told to.
	_, token, _ = execute("token", "create", "--join-dir", dir)
	invitation = strings.TrimSpace(token) + "@" + address
	if code, out, errs := execute("host", "join", invitation, "--root", root); code != exitSuccess {
		t.Fatalf("again: exit %d, %q, %s", code, out, errs)
	}
	other, otherDir := joinableAs(t, "edge-2")
	_, token, _ = execute("token", "create", "--join-dir", otherDir)
	invitation = strings.TrimSpace(token) + "@" + other
	if code, _, errs := execute("host", "join", invitation, "--root", root); code != exitFailure || !strings.Contains(errs, "this host is edge-1 until now; --name") {
		t.Errorf("another name: exit %d, %s", code, errs)
	}
	if code, out, errs := execute("host", "join", invitation, "--root", root, "--name", "edge-2"); code != exitSuccess || !strings.Contains(out, "This host is edge-2") {
		t.Errorf("another name on purpose: exit %d, %q, %s", code, out, errs)
	}
}

func TestTokenOnStandardInputIsNotOnTheCommandLine(t *testing.T) {
	_, address, dir := joinable(t)
	_, token, _ := execute("token", "create", "--join-dir", dir)
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"host", "join", "-", "--root", t.TempDir()}, func(string) (string, bool) { return "", false },
		strings.NewReader(strings.TrimSpace(token)+"@"+address+"\n"), &out, &errs)
	if code != exitSuccess || !strings.Contains(out.String(), "This host is edge-1") {
		t.Errorf("exit %d, %q, %s", code, out.String(), errs.String())
	}
}

func TestTokenAndJoinFlagsAreChecked(t *testing.T) {
	_, address, dir := joinable(t)
	_, token, _ := execute("token", "create", "--join-dir", dir)
	token = strings.TrimSpace(token)
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"token", "create"}, exitUsage, "--join-dir is empty"},
		{[]string{"token", "create", "--join-dir", t.TempDir()}, exitFailure, "start tombolo node with it first"},
		{[]string{"token", "create", "--join-dir", dir, "--validity", "1000h"}, exitUsage, "--validity 1000h0m0s"},
		{[]string{"token", "create", "--join-dir", dir, "--endpoint", "node"}, exitUsage, `--endpoint "node"`},
		{[]string{"token", "delete", "--join-dir", dir}, exitUsage, "give the ID of one token"},
		{[]string{"token", "delete", "x", "--join-dir", dir}, exitUsage, `there is no token "x"`},
		{[]string{"host", "join"}, exitUsage, "give TOKEN@host:port"},
		{[]string{"host", "join", token}, exitUsage, "give TOKEN@host:port"},
		{[]string{"host", "join", token + "@node"}, exitUsage, `"node": give host:port`},
		{[]string{"host", "join", token[:40] + "@node:1"}, exitUsage, "token"},
		{[]string{"host", "join", token + "@" + address, "--root", "here"}, exitUsage, `--root "here"`},
		{[]string{"host", "join", token + "@" + address, "--root", t.TempDir(), "--name", "edge-2"}, exitFailure, `it is for "edge-2", and this node is for "edge-1"`},
		{[]string{"host", "--connect", address, "--root", t.TempDir()}, exitUsage, "run tombolo host join first"},
	} {
		code, _, errs := execute(tc.args...)
		if code != tc.code || !strings.Contains(errs, tc.want) || strings.Contains(errs, token) {
			t.Errorf("%v: exit %d, %s, want %d and %q", tc.args, code, errs, tc.code, tc.want)
		}
	}
	_, listed, _ := execute("token", "list", "--join-dir", dir)
	id := strings.Split(token, ".")[1]
	if !strings.Contains(listed, id) || !strings.Contains(listed, "good for once") {
		t.Errorf("it was used up:\n%s", listed)
	}
	if code, out, _ := execute("token", "delete", id, "--join-dir", dir); code != exitSuccess || !strings.Contains(out, id) {
		t.Errorf("exit %d, %s", code, out)
	}
}

func TestHelpOfJoining(t *testing.T) {
	for name, args := range map[string][]string{
		"token-help": {"token", "--help"}, "token-create-help": {"token", "create", "--help"}, "token-revoke-help": {"token", "revoke", "--help"},
		"host-join-help": {"host", "join", "--help"},
	} {
		code, out, errs := execute(args...)
		if code != exitSuccess || errs != "" {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
		golden(t, name, out)
	}
}
