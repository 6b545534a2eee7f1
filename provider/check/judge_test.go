// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link"
)

var (
	now    = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	atEdge = link.Target{Scheme: link.SchemeTLS, Address: "192.0.2.7:8470"}
)

// fine is a machine and a cluster without problems.
func fine() *Observed {
	status := &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true},
	}}}
	return &Observed{
		Target: atEdge, Node: "edge-1", Version: "v1.2.3", Now: now, MachineAt: now, RoundTrip: 4 * time.Millisecond,
		Machine: &host.Facts{
			Version: "v1.2.3", Clock: now.Add(time.Second), CgroupVersion: 2, CgroupDriver: "systemd",
			Controllers: []string{"cpu", "cpuset", "hugetlb", "io", "memory", "pids"},
			Filesystems: []host.Filesystem{
				{Purpose: "nodefs", Path: "/var/lib/tombolo", CapacityBytes: 100 << 30, AvailableBytes: 50 << 30, Inodes: 1000, InodesAvailable: 900},
				{Purpose: "imagefs", Path: "/var/lib/containerd", CapacityBytes: 100 << 30, AvailableBytes: 50 << 30},
			},
		},
		Runtime: &runtimeapi.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "v2.3.0", RuntimeApiVersion: "v1"}, Status: status,
		Certificates: []Certificate{certificate()},
		Identities:   []Identity{identity()},
	}
}

// certificate is one that is valid for half a year more.
func certificate() Certificate {
	return Certificate{What: "--host-cert-file node.crt", Remedy: "make another one", Leaf: &x509.Certificate{
		Subject: pkix.Name{CommonName: "edge-1"}, NotBefore: now.AddDate(0, -6, 0), NotAfter: now.AddDate(0, 6, 0), DNSNames: []string{"edge-1.example.com"},
	}}
}

func identity() Identity {
	return Identity{
		Source: "--kubeconfig k", Server: "https://192.0.2.1:6443", ServerVersion: "v1.37.0", User: "system:node:edge-1", Node: true,
		Answers: []Answer{{Right: Right{Verb: "create", Resource: "nodes", For: "to register the node"}, Allowed: true}},
	}
}

// problems are the findings that are neither fine nor skipped.
func problems(o *Observed) (out []Finding) {
	for _, f := range Judge(o) {
		if f.Status == Warning || f.Status == Failed {
			out = append(out, f)
		}
	}
	return out
}

func TestMachineWithoutProblemsHasNone(t *testing.T) {
	var got []string
	for _, f := range Judge(fine()) {
		if f.Status != OK || f.Remedy != "" {
			t.Errorf("%+v", f)
		}
		got = append(got, f.Check)
	}
	want := []string{"link", "versions", "clock", "runtime", "images", "network", "cgroups", "disk", "disk", "certificates", "api", "rights"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestEachProblemIsOneFindingWithARemedy: each case breaks one thing.
func TestEachProblemIsOneFindingWithARemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(*Observed)
		check  string
		status Status
		says   string // in the message
		remedy string
	}{
		"other version":   {func(o *Observed) { o.Machine.Version = "v1.0.0" }, checkVersions, Warning, "v1.2.3 here and v1.0.0 on the host", "the same version"},
		"clock behind":    {func(o *Observed) { o.Machine.Clock = now.Add(-time.Minute) }, checkClock, Failed, "1m0s behind this machine's", "timedatectl"},
		"clock ahead":     {func(o *Observed) { o.Machine.Clock = now.Add(3 * time.Second) }, checkClock, Warning, "3s ahead of", "timedatectl"},
		"runtime silent":  {func(o *Observed) { o.RuntimeErr = errors.New("oops") }, checkRuntime, Failed, "does not answer: oops", "systemctl status containerd"},
		"CRI turned off":  {func(o *Observed) { o.RuntimeErr = errdefs.ErrNotImplemented }, checkRuntime, Failed, "does not answer", "disabled_plugins"},
		"other runtime":   {func(o *Observed) { o.Runtime.RuntimeName = "cri-o" }, checkRuntime, Warning, "cri-o v2.3.0", "containerd 2.x"},
		"old runtime":     {func(o *Observed) { o.Runtime.RuntimeVersion = "1.7.2" }, checkRuntime, Warning, "containerd 1.7.2", "containerd 2.x"},
		"runtime unready": {func(o *Observed) { o.Status.Status.Conditions[0] = unready(runtimeapi.RuntimeReady) }, checkRuntime, Failed, "not ready: Why because", "systemctl status containerd"},
		"no conditions":   {func(o *Observed) { o.Status.Status.Conditions = o.Status.Status.Conditions[1:] }, checkRuntime, Failed, "does not report RuntimeReady", "systemctl"},
		"state unknown":   {func(o *Observed) { o.StatusErr = errors.New("oops") }, checkRuntime, Failed, "its state: oops", "systemctl"},
		"images":          {func(o *Observed) { o.ImagesErr = errors.New("oops") }, checkImages, Failed, "image service does not answer: oops", "systemctl"},
		"no pod network":  {func(o *Observed) { o.Status.Status.Conditions[1] = unready(runtimeapi.NetworkReady) }, checkNetwork, Failed, "no network: Why because", "/etc/cni/net.d"},
		"cgroups v1": {func(o *Observed) {
			o.Machine.CgroupVersion, o.Machine.Controllers[3] = 1, "blkio"
		}, checkCgroups, Warning, "version 1", "unified_cgroup_hierarchy"},
		"no driver":         {func(o *Observed) { o.Machine.CgroupDriver = "" }, checkCgroups, Warning, "cgroup driver", "containerd"},
		"no memory limits":  {func(o *Observed) { o.Machine.Controllers[4] = "misc" }, checkCgroups, Failed, "no cgroup controllers memory", "cgroup_enable=memory"},
		"no huge pages":     {func(o *Observed) { o.Machine.Controllers[2] = "misc" }, checkCgroups, Warning, "no cgroup controllers hugetlb", "at boot"},
		"controllers?":      {func(o *Observed) { o.Machine.Controllers = nil }, checkCgroups, Warning, "does not tell", "update tombolo"},
		"disk full":         {func(o *Observed) { o.Machine.Filesystems[0].AvailableBytes = 9 << 30 }, checkDisk, Failed, "/var/lib/tombolo) has 9.0 GiB of 100.0 GiB free (9%)", "less than 10%"},
		"disk nearly full":  {func(o *Observed) { o.Machine.Filesystems[1].AvailableBytes = 16 << 30 }, checkDisk, Warning, "(16%)", "less than 15%"},
		"no inodes":         {func(o *Observed) { o.Machine.Filesystems[0].InodesAvailable = 10 }, checkDisk, Failed, "1% of its inodes", "5% of the inodes"},
		"disk not measured": {func(o *Observed) { o.Machine.Filesystems = o.Machine.Filesystems[:1] }, checkDisk, Warning, "of images cannot be measured", "log"},
		"expired":           {func(o *Observed) { o.Certificates[0].Leaf.NotAfter = now }, checkCertificates, Failed, "node.crt (edge-1) has expired on 2026-05-01", "make another one"},
		"expires soon":      {func(o *Observed) { o.Certificates[0].Leaf.NotAfter = now.AddDate(0, 0, 20) }, checkCertificates, Warning, "expires on 2026-05-21", "make another one"},
		"not yet valid":     {func(o *Observed) { o.Certificates[0].Leaf.NotBefore = now.Add(time.Hour) }, checkCertificates, Failed, "from 2026-05-01T13:00:00Z only", "clock"},
		"other name":        {func(o *Observed) { o.Certificates[0].Name = "192.0.2.7" }, checkCertificates, Failed, "is not for 192.0.2.7", "make another one"},
		"other authority":   {func(o *Observed) { o.Certificates[0].Roots = x509.NewCertPool() }, checkCertificates, Failed, "is not believed: ", "make another one"},
		"unreadable":        {func(o *Observed) { o.Certificates[0].Err = fs.ErrNotExist }, checkCertificates, Failed, "does not exist", "make another one"},
		"API away":          {func(o *Observed) { o.Identities[0].Err = errors.New("refused") }, checkAPI, Failed, "--kubeconfig k: refused", "address of the server"},
		"API refuses":       {func(o *Observed) { o.Identities[0].Err = errdefs.ErrUnauthenticated }, checkAPI, Failed, "--kubeconfig k: ", "does not know this identity"},
		"other node":        {func(o *Observed) { o.Identities[0].User = "admin" }, checkAPI, Failed, "is admin, and the node is system:node:edge-1", "--bootstrap-kubeconfig"},
		"right missing":     {func(o *Observed) { o.Identities[0].Answers[0].Allowed = false }, checkRights, Failed, "may not create nodes, which it needs to register the node", "Node,RBAC"},
		"right unknown":     {func(o *Observed) { o.Identities[0].Answers[0].Err = errors.New("oops") }, checkRights, Failed, "not known: oops", "again"},
		"approval by hand": {func(o *Observed) {
			o.Identities[0] = Identity{User: "sa", Answers: []Answer{{Right: AskerRights()[4]}}}
		}, checkRights, Warning, "somebody has to approve each request", "rbac.create"},
	} {
		t.Run(name, func(t *testing.T) {
			o := fine()
			tc.spoil(o)
			got := problems(o)
			if len(got) != 1 {
				t.Fatalf("findings %+v, want one", got)
			}
			f := got[0]
			if f.Check != tc.check || f.Status != tc.status || !strings.Contains(f.Message, tc.says) || !strings.Contains(f.Remedy, tc.remedy) || f.Remedy == "" {
				t.Errorf("%+v", f)
			}
		})
	}
}

func unready(kind string) *runtimeapi.RuntimeCondition {
	return &runtimeapi.RuntimeCondition{Type: kind, Reason: "Why", Message: "because"}
}

// TestSlowAnswerIsNoSkew: the clock may have been read at any moment between question and answer.
func TestSlowAnswerIsNoSkew(t *testing.T) {
	o := fine()
	o.RoundTrip, o.Machine.Clock = 10*time.Second, now.Add(5*time.Second)
	if got := problems(o); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestShortLivedCertificatesAreNotWarnedOfAllTheirLife(t *testing.T) {
	o := fine()
	leaf := o.Certificates[0].Leaf
	leaf.NotBefore, leaf.NotAfter = now.Add(-30*time.Minute), now.Add(30*time.Minute)
	if got := problems(o); len(got) > 0 {
		t.Errorf("%+v", got)
	}
	leaf.NotAfter = now.Add(5 * time.Minute)
	if got := problems(o); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestUnreachedHostSaysWhatToDo: for what is in the way on each kind of link.
func TestUnreachedHostSaysWhatToDo(t *testing.T) {
	unix, ssh := link.Target{Scheme: link.SchemeUnix, Address: "/c.sock"}, link.Target{Scheme: link.SchemeSSH, Address: "root@edge:22"}
	for name, tc := range map[string]struct {
		target link.Target
		err    error
		want   string
	}{
		"no socket":         {unix, fs.ErrNotExist, "containerd is installed and running"},
		"not allowed":       {unix, fs.ErrPermission, "as root"},
		"no containerd":     {unix, syscall.ECONNREFUSED, "systemctl start containerd"},
		"no host process":   {atEdge, syscall.ECONNREFUSED, "start tombolo host"},
		"no answer":         {atEdge, &net.OpError{Op: "dial", Err: timeout{}}, "firewall"},
		"no route":          {atEdge, syscall.EHOSTUNREACH, "firewall"},
		"unknown name":      {atEdge, &net.DNSError{Name: "edge"}, "IP address"},
		"host unbelieved":   {atEdge, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "certificate of the host below"},
		"node unbelieved":   {atEdge, errors.New("tls://x refused our certificate: remote error"), "--client-ca-file"},
		"too far apart":     {atEdge, &remote.SkewError{Reason: "the host is too old", Remedy: "replace tombolo host"}, "replace tombolo host"},
		"something else":    {atEdge, errors.New("oops"), "log of tombolo host"},
		"ssh":               {ssh, errors.New("oops"), "ssh -v -p 22 root@edge"},
		"reverse":           {link.Target{Scheme: link.SchemeReverse, Address: "edge-1"}, errors.New("oops"), "--connect"},
		"ssh, unknown name": {ssh, &net.DNSError{Name: "edge"}, "IP address"},
	} {
		t.Run(name, func(t *testing.T) {
			o := fine()
			o.Target, o.LinkErr, o.Machine = tc.target, fmt.Errorf("dialing %s: %w", tc.target, tc.err), nil
			got := problems(o)
			if len(got) != 1 || got[0].Check != checkLink || got[0].Status != Failed || !strings.Contains(got[0].Remedy, tc.want) {
				t.Errorf("%+v, want a remedy with %q", got, tc.want)
			}
			var skipped []string
			for _, f := range Judge(o) {
				if f.Status == Skipped {
					skipped = append(skipped, f.Check)
				}
			}
			if d := cmp.Diff([]string{"versions", "clock", "runtime", "images", "network", "cgroups", "disk"}, skipped); d != "" {
				t.Errorf("skipped (-want +got):\n%s", d)
			}
		})
	}
}

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

func TestSocketOfThisMachineIsOneFindingAndTheMachineIsLookedAtAllTheSame(t *testing.T) {
	o := fine()
	o.Target = link.Target{Scheme: link.SchemeUnix, Address: "/c.sock"}
	o.LinkErr, o.RuntimeErr = syscall.ECONNREFUSED, errdefs.ErrUnavailable
	got := problems(o)
	if len(got) != 1 || got[0].Check != checkLink {
		t.Errorf("%+v", got)
	}
	if !slices.ContainsFunc(Judge(o), func(f Finding) bool { return f.Check == checkDisk && f.Status == OK }) {
		t.Error("the disks were not looked at")
	}
}

func TestWhatIsNoTomboloHostIsSaidToBeNone(t *testing.T) {
	o := fine()
	o.Machine, o.MachineErr = nil, errdefs.ErrNotImplemented
	got := problems(o)
	if len(got) != 1 || !strings.Contains(got[0].Message, "does not tell about itself") {
		t.Errorf("%+v", got)
	}
}

func TestNothingToReachTheAPIWithIsNoFailure(t *testing.T) {
	o := fine()
	o.Identities = nil
	if r := NewReport(o); r.Summary.Failed > 0 || r.Summary.Skipped != 2 {
		t.Errorf("%+v", r.Summary)
	}
}

func TestReportInJSONHasAStableForm(t *testing.T) {
	o := fine()
	o.LinkErr, o.Machine, o.Certificates, o.Identities = errors.New("oops"), nil, nil, nil
	r := NewReport(o)
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return f.Check != checkLink && f.Check != checkRights })
	got, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
 "apiVersion": "tombolo.dev/v1alpha1",
 "kind": "CheckReport",
 "target": "tls://192.0.2.7:8470",
 "node": "edge-1",
 "time": "2026-05-01T12:00:00Z",
 "findings": [
  {
   "check": "link",
   "status": "failed",
   "message": "oops",
   "remedy": "see the log of tombolo host (journalctl -u tombolo-host)"
  },
  {
   "check": "rights",
   "status": "skipped",
   "message": "nothing to reach the API server with: give --kubeconfig or --bootstrap-kubeconfig"
  }
 ],
 "summary": {
  "ok": 0,
  "warning": 0,
  "failed": 1,
  "skipped": 9
 }
}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
