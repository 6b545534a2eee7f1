// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// debugVerbosity is the --v from which on debug messages are written, as is the custom with Kubernetes' own programs.
const debugVerbosity = 4

// maxLibraryVerbosity is the most that the Kubernetes libraries are let say: from 8 on they log what the API answers, secrets
// included.
const maxLibraryVerbosity = 7

// Formats of the log, and levels from the most to the fewest messages.
var (
	logFormats = []string{"text", "json"}
	logLevels  = []string{"debug", "info", "warn", "error"}
)

// logOptions are the flags that say what is logged and how. Logs go to standard error.
type logOptions struct {
	verbosity int
	format    string
	level     string
}

func (o *logOptions) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.format, "log-format", logFormats[0], "format of the log: text or json")
	fs.StringVar(&o.level, "log-level", "info", "which messages are logged: debug, info, warn or error, and what is worse")
	fs.IntVarP(&o.verbosity, "v", "v", 0, "how much the Kubernetes libraries log: 0 for what an operator needs; 4 and more also mean --log-level=debug")
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "logging-format" { // the kubelet's name
			name = "log-format"
		}
		return pflag.NormalizedName(name)
	})
}

// check finds what is wrong with the flags.
func (o *logOptions) check() (problems []error) {
	if !slices.Contains(logFormats, o.format) {
		problems = append(problems, fmt.Errorf("--log-format %q: give text or json", o.format))
	}
	if !slices.Contains(logLevels, o.level) {
		problems = append(problems, fmt.Errorf("--log-level %q: give debug, info, warn or error", o.level))
	}
	if o.verbosity < 0 {
		problems = append(problems, fmt.Errorf("--v %d: give at least 0", o.verbosity))
	}
	return problems
}

// logger makes the process's logger of flags that were checked, and sends what the Kubernetes libraries log with klog to it as
// well.
func (o *logOptions) logger(w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.level)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level: %w", err)}
	}
	if o.verbosity >= debugVerbosity {
		level = slog.LevelDebug
	}
	handlerOptions := &slog.HandlerOptions{Level: level, ReplaceAttr: plainErrors}
	var handler slog.Handler = slog.NewTextHandler(w, handlerOptions)
	if o.format == "json" {
		handler = slog.NewJSONHandler(w, handlerOptions)
	}
	logger := slog.New(handler)
	var klogFlags flag.FlagSet
	klog.InitFlags(&klogFlags)
	if err := klogFlags.Set("v", strconv.Itoa(min(o.verbosity, maxLibraryVerbosity))); err != nil {
		return nil, usageError{fmt.Errorf("--v %d: %w", o.verbosity, err)}
	}
	klog.SetSlogLogger(logger)
	return logger, nil
}

// plainErrors lets errors be logged by their text. Those of some libraries would bring a stack trace along otherwise.
func plainErrors(_ []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	return a
}
