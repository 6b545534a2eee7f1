// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/tombolo-dev/tombolo/host/remote"
	"github.com/tombolo-dev/tombolo/link"
)

const (
	// skewWarning is a difference between clocks that shows in the times people read, skewFailure one with which tokens and
	// certificates that are new are not believed. It is what the node reports an event for.
	skewWarning = 2 * time.Second
	skewFailure = 10 * time.Second
)

// Judge turns what was observed into findings, in the order in which to read them.
func Judge(o *Observed) []Finding {
	findings := judgeLink(o)
	if o.Machine == nil {
		why := "the host is not reached"
		if o.LinkErr == nil {
			findings = append(findings, failed(checkLink, fmt.Sprintf("the host does not tell about itself: %v", o.MachineErr),
				"see that tombolo on the host is not older than this one"))
			why = "the host does not tell about itself"
		}
		for _, check := range []string{checkVersions, checkClock, checkRuntime, checkImages, checkNetwork, checkCgroups, checkDisk} {
			findings = append(findings, skipped(check, why))
		}
	} else {
		findings = append(findings, judgeVersions(o), judgeClock(o))
		findings = append(findings, judgeRuntime(o)...)
		findings = append(findings, judgeCgroups(o.Machine)...)
		findings = append(findings, judgeDisk(o.Machine)...)
	}
	for _, c := range o.Certificates {
		findings = append(findings, judgeCertificate(c, o.Now))
	}
	return append(findings, judgeAPI(o)...)
}

func judgeLink(o *Observed) []Finding {
	if o.LinkErr != nil {
		return []Finding{failed(checkLink, o.LinkErr.Error(), linkRemedy(o.Target, o.LinkErr))}
	}
	return []Finding{ok(checkLink, fmt.Sprintf("%s answers in %s", o.Target, o.RoundTrip.Round(time.Millisecond/10)))}
}

// linkRemedy says what to do about a host that is not reached.
func linkRemedy(target link.Target, err error) string {
	var skew *remote.SkewError
	var unbelieved *tls.CertificateVerificationError
	var unknown *net.DNSError
	var timeout net.Error
	switch {
	case errors.As(err, &skew):
		return skew.Remedy
	case target.Scheme == link.SchemeUnix && errors.Is(err, fs.ErrNotExist):
		return "see that containerd is installed and running (systemctl status containerd), and that this is its socket (address of [grpc] in its config.toml)"
	case target.Scheme == link.SchemeUnix && errors.Is(err, fs.ErrPermission):
		return "run this as root, or as a user who may use the socket"
	case target.Scheme == link.SchemeUnix:
		return "start containerd: systemctl start containerd"
	case errors.As(err, &unbelieved):
		return "see the certificate of the host below: it must be valid, for this name, and of the authority in --host-ca-file"
	case strings.Contains(err.Error(), "refused our certificate"):
		return "see the certificate of the node below, and the log of tombolo host: its --client-ca-file must be the authority that made it"
	case target.Scheme == link.SchemeReverse:
		return "see that tombolo host runs on the machine with --connect to this address, and that nothing keeps it away; stop the tombolo node that listens here meanwhile: a check takes its place"
	case errors.As(err, &unknown):
		return "see that the name is right and known on this machine, or give an IP address"
	case target.Scheme == link.SchemeSSH:
		return "see docs/link-ssh.md; the same with ssh(1) says more: ssh -v " + sshCommand(target.Address)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start tombolo host on the machine (systemctl status tombolo-host), with this port in --listen"
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "see that the address is right, that the machine is up, and that no firewall on the way keeps this port closed"
	default:
		return "see the log of tombolo host (journalctl -u tombolo-host)"
	}
}

// sshCommand is the arguments of ssh(1) for user@host:port.
func sshCommand(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return "-p " + port + " " + host
}

func judgeVersions(o *Observed) Finding {
	if o.Machine.Version == o.Version {
		return ok(checkVersions, fmt.Sprintf("both ends are tombolo %s", o.Version))
	}
	return warning(checkVersions, fmt.Sprintf("tombolo is %s here and %s on the host; they understand each other", o.Version, o.Machine.Version),
		"put the same version on both ends, in either order; pods run on meanwhile")
}

func judgeClock(o *Observed) Finding {
	offset := o.Machine.Clock.Sub(o.MachineAt)
	// The answer may have been made at any moment between question and answer.
	certain := max(0, offset.Abs()-o.RoundTrip/2)
	direction := "ahead of"
	if offset < 0 {
		direction = "behind"
	}
	message := fmt.Sprintf("the host's clock is %s %s this machine's", offset.Abs().Round(time.Millisecond), direction)
	const remedy = "let both machines set their clocks (timedatectl set-ntp true): tokens and certificates are judged by them, and times in logs and statuses are wrong"
	switch {
	case certain > skewFailure:
		return failed(checkClock, message, remedy)
	case certain > skewWarning:
		return warning(checkClock, message, remedy)
	default:
		return ok(checkClock, message)
	}
}
