// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
)

// Forms in which a command prints its answer.
const (
	outputText = "text"
	outputJSON = "json"
)

// outputFormat is the flag for the form of an answer.
type outputFormat struct{ name string }

func (o *outputFormat) addFlag(fs *pflag.FlagSet) {
	fs.StringVarP(&o.name, "output", "o", outputText, "form of the answer: text or json")
}

func (o *outputFormat) check() error {
	if o.name != outputText && o.name != outputJSON {
		return fmt.Errorf("--output %q: give %s or %s", o.name, outputText, outputJSON)
	}
	return nil
}

func (o *outputFormat) json() bool { return o.name == outputJSON }

// printJSON writes a value with two spaces for each level.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// isFile says whether there is a file at the path.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
