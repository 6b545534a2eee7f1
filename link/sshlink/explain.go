// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/tombolo-dev/tombolo/link/safetext"
)

// What a server says of itself is in these errors at any length, and must not push out what we say.

// explainLogin says why a login failed.
func explainLogin(err error, hop Address, identity *credential) error {
	var algorithms *ssh.AlgorithmNegotiationError
	text, whole := err.Error(), err
	err = safetext.ShortError(err)
	switch {
	case strings.Contains(text, "unable to authenticate"), strings.Contains(text, "Too many authentication failures"):
		return loginError{fmt.Errorf("%s refused the %s: %s (%w)", hop, identity.describe(), identity.remedy(), err)}
	case errors.As(err, &algorithms) && strings.Contains(text, "host key"):
		return hostKeyError{fmt.Errorf("%s has no host key of a kind that it is known with: compare on the host with ssh-keygen -lf /etc/ssh/ssh_host_*_key.pub (%w)", hop.HostPort(), err)}
	case strings.HasSuffix(text, "EOF"), strings.Contains(text, "connection reset"):
		return fmt.Errorf("%s closed the connection during the login: is it an SSH server, and does it let this address in (%w)", hop.HostPort(), err)
	default:
		return safetext.ExcerptError(whole)
	}
}

// explainJump says why a jump host does not lead on.
func explainJump(err error, via, to Address) error {
	var refused *ssh.OpenChannelError
	err = safetext.ShortError(err)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused) && refused.Reason == ssh.Prohibited:
		return fmt.Errorf("jump host %s does not forward to %s: AllowTcpForwarding must be yes there, and PermitOpen or permitopen allow it (%w)", via, to.HostPort(), err)
	default:
		return fmt.Errorf("jump host %s does not reach %s: %w", via, to.HostPort(), err)
	}
}

// explainSession says why no command can be run.
func explainSession(err error) error {
	if strings.HasPrefix(err.Error(), "ssh: command ") { // all of it would follow
		err = errors.New("the request was refused")
	}
	return fmt.Errorf("the SSH server does not let a command be run (MaxSessions, ForceCommand): %w", safetext.ShortError(err))
}

// endings are what programs on the host say before they end, in lower case, and what to do about it. The first that is found
// counts.
var endings = []struct {
	says   []string
	sudo   bool // only if sudo runs the program
	remedy string
}{
	{[]string{"password is required"}, true, "sudo asks for a password: allow it without one, in /etc/sudoers.d on the host: USER ALL=(root) NOPASSWD: ALL"},
	{[]string{"terminal is required"}, true, "sudo asks for a password: allow it without one, in /etc/sudoers.d on the host: USER ALL=(root) NOPASSWD: ALL"},
	{[]string{"must have a tty"}, true, "sudo wants a terminal: add to /etc/sudoers.d on the host: Defaults:USER !requiretty"},
	{[]string{"sudo", "not found"}, true, "there is no sudo on the host: log in as root and leave out --host-ssh-sudo, or install it"},
	{[]string{"sudoers"}, true, "sudo does not let the user: add to /etc/sudoers.d on the host: USER ALL=(root) NOPASSWD: ALL"},
	{[]string{"not allowed to"}, true, "sudo does not let the user: add to /etc/sudoers.d on the host: USER ALL=(root) NOPASSWD: ALL"},
	{[]string{"sha256sum", "not found"}, false, "there is no sha256sum on the host: install coreutils or busybox"},
	{[]string{"in use by another tombolo process"}, false, "another node or host process uses the root directory: stop it, or give this one its own --root-dir"},
	{[]string{"no space left"}, false, "the disk of the host is full: make room, or choose another directory with --host-ssh-cache-dir"},
	{[]string{"exec", "permission denied"}, false, "programs cannot be run from there, as with the mount option noexec: choose another directory with --host-ssh-cache-dir"},
	{[]string{"read-only file system"}, false, "choose a directory that can be written, with --host-ssh-cache-dir or --root-dir"},
	{[]string{"currently not available"}, false, "the user may not log in: give it a login shell"},
}

// explainEnd says why a command ended: err is how, text what it wrote last.
func explainEnd(err error, text string, o Options) error {
	how := "ended"
	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	switch {
	case errors.As(err, &exit) && exit.Signal() != "":
		how = "was ended by signal " + printable(exit.Signal())
	case errors.As(err, &exit):
		how = fmt.Sprintf("ended with exit status %d", exit.ExitStatus())
	case errors.As(err, &missing):
		how = "ended with the connection"
	case err != nil:
		return explainSession(err)
	}
	text = printable(text)
	if text == "" {
		return fmt.Errorf("the program on the host %s and said nothing", how)
	}
	if remedy := remedyFor(text, o); remedy != "" {
		return fmt.Errorf("the program on the host %s: %s; %s", how, text, remedy)
	}
	return fmt.Errorf("the program on the host %s: %s", how, text)
}

// explainStart says why a program ended before it served. One that went with the connection may be fine.
func explainStart(err error, text string, o Options) error {
	why := explainEnd(err, text, o)
	if missing := (*ssh.ExitMissingError)(nil); errors.As(err, &missing) {
		return why
	}
	return programError{why, maxRefusalPause}
}

func remedyFor(text string, o Options) string {
	lower := strings.ToLower(text)
	for _, e := range endings {
		found := o.Sudo || !e.sudo
		for _, word := range e.says {
			found = found && strings.Contains(lower, word)
		}
		if found {
			return strings.ReplaceAll(e.remedy, "USER", o.Address.User)
		}
	}
	if !o.Sudo && o.Address.User != "root" && (strings.Contains(lower, "permission denied") || strings.Contains(lower, "operation not permitted")) {
		return "only root may do that: log in as root, or give --host-ssh-sudo"
	}
	return ""
}

// printable is what a host wrote as one line that is safe to show, cut to a length that fits into a condition.
func printable(text string) string {
	text = safetext.Printable(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; "))
	const most = 600
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return strings.TrimSpace(text)
}
