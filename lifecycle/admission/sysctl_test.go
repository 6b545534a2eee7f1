// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"strings"
	"testing"

	"github.com/tombolo-dev/tombolo/host"
)

func TestSysctlsAreSafeOrAllowed(t *testing.T) {
	const recent = "6.1.0-13-amd64"
	for _, tc := range []struct {
		name, spec, kernel string
		unsafe             []string
		want               string
	}{
		{name: "a safe one", spec: `securityContext: {sysctls: [{name: kernel.shm_rmid_forced, value: "1"}]}`},
		{name: "a safe one with slashes", spec: `securityContext: {sysctls: [{name: net/ipv4/ip_local_port_range, value: "1024 65535"}]}`},
		{name: "one that a recent kernel makes safe", kernel: recent, spec: `securityContext: {sysctls: [{name: net.ipv4.tcp_rmem, value: "1"}]}`},
		{
			name: "one that an old kernel does not make safe", kernel: "4.14.336", spec: `securityContext: {sysctls: [{name: net.ipv4.tcp_rmem, value: "1"}]}`,
			want: `forbidden sysctl: "net.ipv4.tcp_rmem" not allowlisted`,
		},
		{name: "one of a kernel that is not known yet", spec: `securityContext: {sysctls: [{name: net.ipv4.tcp_rmem, value: "1"}]}`},
		{
			name: "an unsafe one", kernel: recent, spec: `securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}, {name: net.core.somaxconn, value: "1"}]}`,
			want: `forbidden sysctl: "net.core.somaxconn" not allowlisted`,
		},
		{name: "an unsafe one that is allowed", unsafe: []string{"net/core/somaxconn"}, spec: `securityContext: {sysctls: [{name: net.core.somaxconn, value: "1"}]}`},
		{name: "an unsafe one that a pattern allows", unsafe: []string{"kernel.msg*"}, spec: `securityContext: {sysctls: [{name: kernel.msgmax, value: "1"}]}`},
		{
			name: "one beside the pattern", unsafe: []string{"kernel.msg*"}, spec: `securityContext: {sysctls: [{name: kernel.sem, value: "1"}]}`,
			want: `forbidden sysctl: "kernel.sem" not allowlisted`,
		},
		{
			name: "a safe one of the host's network", spec: `hostNetwork: true, securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: "1"}]}`,
			want: `forbidden sysctl: "net.ipv4.tcp_syncookies" not allowed with host Net enabled`,
		},
		{
			name: "an allowed one of the host's IPC", unsafe: []string{"kernel.*"}, spec: `hostIPC: true, securityContext: {sysctls: [{name: kernel.sem, value: "1"}]}`,
			want: `forbidden sysctl: "kernel.sem" not allowed with host IPC enabled`,
		},
		{
			name: "one of the host's users", unsafe: []string{"user.*"}, spec: `securityContext: {sysctls: [{name: user.max_pid_namespaces, value: "1"}]}`,
			want: `forbidden sysctl: "user.max_pid_namespaces" not allowed with host User enabled`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			facts := Facts{UnsafeSysctls: tc.unsafe}
			if tc.kernel != "" {
				facts.Host = &host.Facts{KernelVersion: tc.kernel}
			}
			r := Check(parse(t, "spec: {"+tc.spec+", containers: [{name: a}]}"), facts)
			if r == nil {
				r = &Rejection{}
			}
			if r.Message != tc.want || (tc.want != "") != (r.Reason == "SysctlForbidden") {
				t.Errorf("got %s: %s, want %s", r.Reason, r.Message, tc.want)
			}
		})
	}
}

func TestValidateSysctlPattern(t *testing.T) {
	for _, good := range []string{"net.core.somaxconn", "net/core/somaxconn", "net.*", "kernel.msg*", "fs.mqueue.*", "kernel.shm_rmid_forced"} {
		if err := ValidateSysctlPattern(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, why := range map[string]string{
		"": "match regex", "*.net": "match regex", "net..core": "match regex", "NET": "match regex", "net.*.x": "match regex",
		"net." + strings.Repeat("a", 250): "at most 253", "vm.swappiness": "not known to be namespaced", "*": "not known to be namespaced",
	} {
		if err := ValidateSysctlPattern(bad); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", bad, err, why)
		}
	}
}
