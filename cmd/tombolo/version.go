// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tombolo-dev/tombolo/host/hostpb"
)

// What the linker sets in a release build (-X main.version=... and so on). The date is that of the commit, as in RFC 3339, so that
// the same sources make the same program.
var version, commit, date string

// buildVersion returns the version of this build: what the linker was told, else what the Go tool recorded.
func buildVersion() string { return newBuild().Version }

// build is what this program was made of. Its form in JSON is stable: fields are added, never changed.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Protocol is what node and host speak with each other.
	Protocol string `json:"protocol"`
}

// newBuild tells what is known of this build. What is not known is empty, but there is always a version.
func newBuild() build {
	info, _ := debug.ReadBuildInfo()
	return describeBuild(build{Version: version, Commit: commit, Date: date}, info)
}

// describeBuild completes what the linker was told by what the Go tool recorded, which may be nil.
func describeBuild(b build, info *debug.BuildInfo) build {
	b.Go, b.Platform = runtime.Version(), runtime.GOOS+"/"+runtime.GOARCH
	b.Protocol = strings.TrimSuffix(hostpb.HostService_ServiceDesc.ServiceName, ".HostService")
	if info != nil {
		for _, setting := range info.Settings {
			switch {
			case setting.Key == "vcs.revision" && b.Commit == "":
				b.Commit = setting.Value
			case setting.Key == "vcs.time" && b.Date == "":
				b.Date = setting.Value
			}
		}
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
	}
	if b.Version == "" {
		b.Version = "v0.0.0"
	}
	return b
}

// String is the build as one line.
func (b build) String() string {
	text := fmt.Sprintf("tombolo %s %s %s protocol %s", b.Version, b.Go, b.Platform, b.Protocol)
	if b.Commit != "" {
		text += " commit " + b.Commit
	}
	if b.Date != "" {
		text += " of " + b.Date
	}
	return text
}

func newVersionCommand(p *process) *cobra.Command {
	var output outputFormat
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "Prints the version of this program, what it was built from, and the version of what node and host speak with each other.",
		Example: `  tombolo version
  tombolo version -o json`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := output.check(); err != nil {
				return usageError{err}
			}
			if output.json() {
				return printJSON(p.stdout, newBuild())
			}
			_, err := fmt.Fprintln(p.stdout, newBuild())
			return err
		},
	}
	output.addFlag(cmd.Flags())
	return cmd
}
