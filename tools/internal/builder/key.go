// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pin is what a folder under tools/parts says about a part.
type pin struct {
	version string // with its leading v
	goMod   []byte
	goSum   []byte
}

func readPin(folder, module string) (pin, error) {
	goMod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	if err != nil {
		return pin{}, fmt.Errorf("reading the pins of module %s: %w", module, err)
	}
	goSum, err := os.ReadFile(filepath.Join(folder, "go.sum"))
	if err != nil {
		return pin{}, fmt.Errorf("reading the checksums of module %s: %w", module, err)
	}
	version, err := requiredVersion(string(goMod), module)
	if err != nil {
		return pin{}, fmt.Errorf("%s: %w", filepath.Join(folder, "go.mod"), err)
	}
	return pin{version: version, goMod: goMod, goSum: goSum}, nil
}

// requiredVersion finds the version a go.mod file requires of a module. The go command wrote the file, so each requirement
// is on a line of its own; replace lines, which have the same shape up to the arrow, are skipped.
func requiredVersion(goMod, module string) (string, error) {
	for line := range strings.Lines(goMod) {
		if strings.Contains(line, "=>") {
			continue
		}
		line, _, _ = strings.Cut(line, "//")
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) == 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("no requirement on %s", module)
}

// expand fills the placeholders of Part.Vars and Part.CFlags.
func expand(text, version string) string {
	numbers := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	for len(numbers) < 2 {
		numbers = append(numbers, "0")
	}
	return strings.NewReplacer("{version}", version, "{major}", numbers[0], "{minor}", numbers[1]).Replace(text)
}

// key is the hash of everything that decides what the binary of a part is.
func key(p Part, pinned pin, toolchain string) string {
	h := sha256.New()
	fields := []string{
		string(pinned.goMod), string(pinned.goSum), toolchain, p.Package,
		strings.Join(goArguments(p, pinned.version), "\x00"),
		strings.Join(cArguments(p, pinned.version), "\x00"),
		fmt.Sprint(p.Cgo, p.Test),
	}
	if p.File != "" {
		fields = append(fields, p.File)
	}
	for _, field := range fields {
		// The length keeps two lists of fields apart that would read the same when joined.
		fmt.Fprintf(h, "%d:%s", len(field), field)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// goArguments are the arguments of "go build" without output file and package.
func goArguments(p Part, version string) []string {
	if p.Package == "" {
		return nil
	}
	ldflags := []string{"-s", "-w"}
	for _, v := range p.Vars {
		ldflags = append(ldflags, "-X", expand(v, version))
	}
	if p.Cgo {
		ldflags = append(ldflags, "-linkmode", "external", "-extldflags", "-static")
	}
	args := []string{"-trimpath", "-buildvcs=false", "-ldflags", strings.Join(ldflags, " ")}
	if len(p.Tags) > 0 {
		args = append(args, "-tags", strings.Join(p.Tags, ","))
	}
	return args
}

// cArguments are the arguments of the C compiler without output file and sources' folder.
func cArguments(p Part, version string) []string {
	if len(p.CSources) == 0 {
		return nil
	}
	args := make([]string, 0, len(p.CFlags)+len(p.CSources))
	for _, f := range p.CFlags {
		args = append(args, expand(f, version))
	}
	return append(args, p.CSources...)
}
