// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/tombolo-dev/tombolo/provider"
)

// staticOptions are the flags that say where manifests of static pods are. Names and forms are the kubelet's.
type staticOptions struct {
	dir    string
	url    string
	header []string
}

func (o *staticOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.dir, "pod-manifest-path", "", "directory of manifests of static pods, on the machine this runs on")
	fs.StringVar(&o.url, "manifest-url", "", "URL of a manifest of static pods, a Pod or a PodList, read every 20 seconds")
	fs.StringSliceVar(&o.header, "manifest-url-header", nil, "headers for --manifest-url, name:value separated by commas")
}

// validate reads the flags and finds what is wrong with them.
func (o *staticOptions) validate() (provider.StaticPods, []error) {
	out := provider.StaticPods{Dir: o.dir, URL: o.url}
	var problems []error
	if o.dir != "" && !filepath.IsAbs(o.dir) {
		problems = append(problems, fmt.Errorf("--pod-manifest-path %q: give an absolute path", o.dir))
	}
	if o.url != "" {
		u, err := url.Parse(o.url)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			problems = append(problems, fmt.Errorf("--manifest-url %q: give an http:// or https:// URL", o.url))
		}
	} else if len(o.header) > 0 {
		problems = append(problems, errors.New("--manifest-url-header is given without --manifest-url"))
	}
	for _, text := range o.header {
		name, value, ok := strings.Cut(text, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			problems = append(problems, fmt.Errorf("--manifest-url-header %q: give name:value", name)) // values may be secret
			continue
		}
		if out.Header == nil {
			out.Header = http.Header{}
		}
		out.Header.Add(name, value)
	}
	return out, problems
}
