// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// debugVerbosity is the --v from which on debug messages are written, as is the custom with Kubernetes' own programs.
const debugVerbosity = 4

// maxLibraryVerbosity is the most that the Kubernetes libraries are let say: from 8 on they log what the API answers, secrets
// included.
const maxLibraryVerbosity = 7

// logOptions are the flags that say what is logged and how. Logs go to standard error.
type logOptions struct {
	verbosity int
	format    string
}

func (o *logOptions) addFlags(fs *pflag.FlagSet) {
	fs.IntVarP(&o.verbosity, "v", "v", 0, "log verbosity: 0 for what an operator needs, 4 and more for every call")
	fs.StringVar(&o.format, "logging-format", "text", `log format: "text" or "json"`)
}

// logger makes the process's logger and sends what the Kubernetes libraries log with klog to it as well.
func (o *logOptions) logger(w io.Writer) (*slog.Logger, error) {
	level := slog.LevelInfo
	if o.verbosity >= debugVerbosity {
		level = slog.LevelDebug
	}
	handlerOptions := &slog.HandlerOptions{Level: level, ReplaceAttr: plainErrors}
	var handler slog.Handler
	switch o.format {
	case "text":
		handler = slog.NewTextHandler(w, handlerOptions)
	case "json":
		handler = slog.NewJSONHandler(w, handlerOptions)
	default:
		return nil, usageError{fmt.Errorf(`--logging-format %q is not known: use "text" or "json"`, o.format)}
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
