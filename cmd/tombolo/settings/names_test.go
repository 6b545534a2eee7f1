// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import "testing"

func TestNamesFollowFromTheFlag(t *testing.T) {
	for flag, want := range map[string]struct{ key, env string }{
		"name":                {"name", "TOMBOLO_NAME"},
		"host-ca-file":        {"hostCAFile", "TOMBOLO_HOST_CA_FILE"},
		"tls-cert-file":       {"tlsCertFile", "TOMBOLO_TLS_CERT_FILE"},
		"host-ssh-host-key":   {"hostSSHHostKey", "TOMBOLO_HOST_SSH_HOST_KEY"},
		"cgroups-per-qos":     {"cgroupsPerQOS", "TOMBOLO_CGROUPS_PER_QOS"},
		"pod-max-pids":        {"podMaxPIDs", "TOMBOLO_POD_MAX_PIDS"},
		"manifest-url-header": {"manifestURLHeader", "TOMBOLO_MANIFEST_URL_HEADER"},
		"v":                   {"v", "TOMBOLO_V"},
		"config":              {"", "TOMBOLO_CONFIG"},
		"help":                {"", "TOMBOLO_HELP"},
	} {
		if got := Key(flag); got != want.key {
			t.Errorf("key of --%s: %q, want %q", flag, got, want.key)
		}
		if got := EnvName(flag); got != want.env {
			t.Errorf("variable of --%s: %q, want %q", flag, got, want.env)
		}
	}
}

func TestNearestIsWhatWasMeant(t *testing.T) {
	candidates := []string{"name", "host", "hostCAFile", "hostCertFile", "port", "maxPods", "nodeLabels", "clusterDNS"}
	for name, want := range map[string]string{
		"hostCaFile":   "hostCAFile",
		"host-ca-file": "hostCAFile",
		"HOST_CA_FILE": "hostCAFile",
		"prot":         "port",
		"nam":          "name",
		"maxPod":       "maxPods",
		"labels":       "nodeLabels",
		"cluster":      "clusterDNS",
		"x":            "",
		"":             "",
		"replicas":     "",
	} {
		if got := Nearest(name, candidates); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func FuzzNearestIsACandidateOrNothing(f *testing.F) {
	f.Add("prot")
	f.Add("ſ\xff")
	f.Fuzz(func(t *testing.T, name string) {
		if got := Nearest(name, []string{"port"}); got != "" && got != "port" {
			t.Errorf("%q", got)
		}
	})
}
