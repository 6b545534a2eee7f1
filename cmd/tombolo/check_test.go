// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tombolo-dev/tombolo/link"
	"github.com/tombolo-dev/tombolo/provider/check"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func TestReportForPeople(t *testing.T) {
	var out bytes.Buffer
	err := printReport(&out, check.NewReport(&check.Observed{
		Target: link.Target{Scheme: link.SchemeUnix, Address: "/c.sock"}, Version: "v1", LinkErr: os.ErrNotExist, Now: time.Unix(0, 0),
		Identities: []check.Identity{{Source: "--kubeconfig k", User: "u", Server: "https://x", ServerVersion: "v1.37.0"}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "check-report", out.String())
}

func TestCheckTellsWhatItFindsAndByItsExitCode(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	socket := filepath.Join(dir, "c.sock")
	args := []string{"check", "unix://" + socket, "--root-dir", dir, "--pod-logs-dir", dir}
	code, out, errs := execute(args...)
	if code != exitFindings || !strings.Contains(out, "FAILED   link") || !strings.Contains(out, "-> see that containerd is installed") || errs != "" {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := fakecri.New(fakecri.Options{}).Server()
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	defer wg.Wait()
	defer server.Stop()
	_, out, errs = execute(append(args, "-o", "json")...)
	var report check.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil || report.Kind != "CheckReport" || errs != "" {
		t.Fatalf("%v, %s%s", err, out, errs)
	}
	for _, f := range report.Findings {
		if (f.Check == "link" || f.Check == "runtime") && f.Status == check.Failed {
			t.Errorf("%+v", f)
		}
	}
}

func TestCheckTakesTheSettingsOfTheNode(t *testing.T) {
	path := settingsFile(t, "NodeConfig", "host: tls://192.0.2.7:8470\nmaxPods: 5\nhostCAFile: ca\n")
	code, _, errs := execute("check", "--config", path, "--output=xml", "--timeout=0s")
	if code != exitUsage {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"--host-cert-file is empty", "--host-key-file is empty", `--output "xml"`, "--timeout 0s"} {
		if !strings.Contains(errs, want) {
			t.Errorf("%q is not in:\n%s", want, errs)
		}
	}
	if strings.Contains(errs, "--host-ca-file") || strings.Contains(errs, "--name") {
		t.Error(errs)
	}
	for name, args := range map[string][]string{"--host is empty": {"check"}, `"b" is neither`: {"check", "unix:///a", "b"}} {
		if code, _, errs := execute(args...); code != exitUsage || !strings.Contains(errs, name) {
			t.Errorf("%v: exit %d, %s", args, code, errs)
		}
	}
}

func TestCheckLooksAtTheDirectoryForJoiningAndMakesNothingInIt(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := filepath.Join(t.TempDir(), "join")
	look := func(dir string) string {
		t.Helper()
		code, out, errs := execute("check", "reverse://edge-1", "--join-dir", dir, "--listen", "127.0.0.1:0", "--timeout", "100ms")
		if code != exitFindings || errs != "" || strings.Contains(out, "--host-ca-file") {
			t.Errorf("exit %d, %s%s", code, out, errs)
		}
		return out
	}
	if out := look(dir); !strings.Contains(out, "no node has used "+dir) {
		t.Error(out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it was made: %v", err)
	}
	_, _, dir = joinable(t)
	if out := look(dir); strings.Count(out, "ok       certificates  --join-dir "+dir) != 2 || !strings.Contains(out, "the host has not connected") {
		t.Error(out)
	}
}
