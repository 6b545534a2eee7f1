// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/tombolo-dev/tombolo/link"
)

const (
	defaultJoinValidity = 30 * 24 * time.Hour
	// minJoinValidity leaves time to renew.
	minJoinValidity = 3 * time.Minute
	maxJoinValidity = 365 * 24 * time.Hour
)

// joinOptions are the flags for hosts that get their certificates from the node.
type joinOptions struct {
	dir      string
	validity time.Duration
}

func (o *joinOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.dir, "join-dir", "", "directory of this node's own authority, of tokens and of what they were given for; with it, hosts join by a token (tombolo token create), in place of --host-ca-file and the like; it must last, and nobody else may read it (reverse://)")
	fs.DurationVar(&o.validity, "join-validity", defaultJoinValidity, "how long the certificates of hosts that joined are valid; they are renewed when a third of it is left (reverse://)")
}

// check finds what is wrong with the flags, or does not go with them.
func (o *joinOptions) check(files link.Files) (problems []error) {
	if !filepath.IsAbs(o.dir) {
		problems = append(problems, fmt.Errorf("--join-dir %q: give an absolute path", o.dir))
	}
	if o.validity < minJoinValidity || o.validity > maxJoinValidity {
		problems = append(problems, fmt.Errorf("--join-validity %s: give at least %s and at most %s", o.validity, minJoinValidity, maxJoinValidity))
	}
	if files.CAFile != "" || files.CertFile != "" || files.KeyFile != "" {
		problems = append(problems, errors.New("--join-dir has the certificates of the link: leave --host-ca-file, --host-cert-file and --host-key-file out"))
	}
	return problems
}
