// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package cri

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Limits of a resolv.conf, as the kubelet and the API's validation know them.
const (
	maxNameservers  = 3
	maxSearches     = 32
	maxSearchLength = 2048
)

// DNSInput is what a pod's resolv.conf is made of.
type DNSInput struct {
	Pod *v1.Pod
	// ClusterDNS are the addresses of the cluster's DNS service, ClusterDomain is the domain of its names.
	ClusterDNS    []string
	ClusterDomain string
	// ResolvConf is the content of the host's resolv.conf.
	ResolvConf string
}

// Problem is something that was bent to make a pod run, to be told by a Warning event on the pod.
type Problem struct {
	Reason  string
	Message string
	// OfNode is told by a Warning event on the node as well, if it is not empty.
	OfNode string
}

// DNSConfig returns the pod's DNS configuration by its policy, cut to the limits of resolv.conf, and what had to be bent.
// A result without any server or search domain makes the runtime copy the host's file.
func DNSConfig(in DNSInput) (*runtimeapi.DNSConfig, []Problem) {
	cfg, problems := baseDNS(in)
	if extra := in.Pod.Spec.DNSConfig; extra != nil {
		cfg.Servers = unique(append(cfg.Servers, extra.Nameservers...))
		cfg.Searches = unique(append(cfg.Searches, extra.Searches...))
		for _, o := range extra.Options {
			option := o.Name
			if o.Value != nil && *o.Value != "" {
				option += ":" + *o.Value
			}
			cfg.Options = mergeOption(cfg.Options, option)
		}
	}
	if len(cfg.Servers) > maxNameservers {
		cfg.Servers = cfg.Servers[:maxNameservers]
		problems = append(problems, Problem{Reason: "DNSConfigForming", Message: "Nameserver limits were exceeded, some nameservers " +
			"have been omitted, the applied nameserver line is: " + strings.Join(cfg.Servers, " ")})
	}
	if kept := limitSearches(cfg.Searches); len(kept) < len(cfg.Searches) {
		cfg.Searches = kept
		problems = append(problems, Problem{Reason: "DNSConfigForming", Message: "Search Line limits were exceeded, some search paths " +
			"have been omitted, the applied search line is: " + strings.Join(kept, " ")})
	}
	return cfg, problems
}

// baseDNS is the configuration by the pod's policy alone.
func baseDNS(in DNSInput) (*runtimeapi.DNSConfig, []Problem) {
	pod, host := in.Pod, parseResolvConf(in.ResolvConf)
	cluster := pod.Spec.DNSPolicy == v1.DNSClusterFirstWithHostNet ||
		(pod.Spec.DNSPolicy != v1.DNSDefault && pod.Spec.DNSPolicy != v1.DNSNone && !pod.Spec.HostNetwork)
	switch {
	case pod.Spec.DNSPolicy == v1.DNSNone:
		return &runtimeapi.DNSConfig{}, nil
	case !cluster:
		return host, nil
	case len(in.ClusterDNS) == 0:
		missing := fmt.Sprintf("kubelet does not have ClusterDNS IP configured and cannot create Pod using %q policy. Falling back to %q policy.",
			v1.DNSClusterFirst, v1.DNSDefault)
		return host, []Problem{{Reason: "MissingClusterDNS", OfNode: missing,
			Message: fmt.Sprintf("pod: %q. %s", fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID), missing)}}
	}
	searches := host.GetSearches()
	if d := in.ClusterDomain; d != "" {
		searches = unique(append([]string{pod.Namespace + ".svc." + d, "svc." + d, d}, searches...))
	}
	return &runtimeapi.DNSConfig{Servers: slices.Clone(in.ClusterDNS), Searches: searches, Options: []string{"ndots:5"}}, nil
}

// domainsOfCluster is how many search domains pods get in front of those of the host.
const domainsOfCluster = 3

// ResolvConfProblem says, in the kubelet's words, why pods cannot get all search domains of a resolv.conf, "" if they can.
func ResolvConfProblem(path, content, clusterDomain string) string {
	searches, limit := parseResolvConf(content).GetSearches(), maxSearches
	if clusterDomain != "" {
		limit -= domainsOfCluster
	}
	switch {
	case len(searches) > limit:
		return fmt.Sprintf("Resolv.conf file '%s' contains search line consisting of more than %d domains!", path, limit)
	case slices.ContainsFunc(searches, func(s string) bool { return len(s) > validation.DNS1123SubdomainMaxLength }):
		return fmt.Sprintf("Resolv.conf file %q contains a search path which length is more than allowed %d chars!", path, validation.DNS1123SubdomainMaxLength)
	case len(strings.Join(searches, " ")) > maxSearchLength:
		return fmt.Sprintf("Resolv.conf file '%s' contains search line which length is more than allowed %d chars!", path, maxSearchLength)
	default:
		return ""
	}
}

// parseResolvConf reads what is understood of a resolv.conf and passes over the rest, as resolvers do.
func parseResolvConf(content string) *runtimeapi.DNSConfig {
	cfg := &runtimeapi.DNSConfig{}
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		switch fields[0] {
		case "nameserver":
			if len(fields) > 1 {
				cfg.Servers = append(cfg.Servers, fields[1])
			}
		case "search":
			cfg.Searches = nil
			for _, s := range fields[1:] {
				if s = strings.TrimSuffix(s, "."); s != "" {
					cfg.Searches = append(cfg.Searches, s)
				}
			}
		case "options":
			for _, o := range fields[1:] {
				cfg.Options = mergeOption(cfg.Options, o)
			}
		}
	}
	return cfg
}

// mergeOption adds an option "name" or "name:value" in place of one with the same name.
func mergeOption(options []string, option string) []string {
	name, _, _ := strings.Cut(option, ":")
	for i, o := range options {
		if have, _, _ := strings.Cut(o, ":"); have == name {
			options[i] = option
			return options
		}
	}
	return append(options, option)
}

// limitSearches drops what resolvers do not take: too many domains, too long ones (glibc aborts on them), too long a
// line.
func limitSearches(searches []string) []string {
	var kept []string
	length := -1 // no blank before the first
	for _, s := range searches[:min(len(searches), maxSearches)] {
		if len(s) > validation.DNS1123SubdomainMaxLength {
			continue
		}
		if length += 1 + len(s); length > maxSearchLength {
			break
		}
		kept = append(kept, s)
	}
	return kept
}

func unique(list []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
