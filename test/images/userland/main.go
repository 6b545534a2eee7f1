// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	os.Exit(run(os.Args, os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	switch name := filepath.Base(args[0]); name {
	case "curl":
		if err := curl(args[1:], stdout); err != nil {
			fmt.Fprintln(stderr, "curl:", err)
			return 1
		}
	case "nnp":
		fmt.Fprintf(stdout, "Effective uid: %d\n", os.Geteuid())
	default:
		fmt.Fprintf(stderr, "%s: call it curl or nnp\n", name)
		return 2
	}
	return 0
}
