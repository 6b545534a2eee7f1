// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// Sources are where values come from besides the command line.
type Sources struct {
	// File may be nil.
	File *File
	// LookupEnv is os.LookupEnv or stands in for it.
	LookupEnv func(string) (string, bool)
}

// Origins say, by the names of flags, where values came from that are neither defaults nor on the command line.
type Origins map[string]string

// Apply gives each flag that is not on the command line its value, and returns everything that is wrong with the sources.
func Apply(flags *pflag.FlagSet, s Sources) (Origins, []error) {
	origins := Origins{}
	entries, problems := s.File.match(flags)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Name == "version" {
			return
		}
		given := f.Changed
		if value, ok := s.LookupEnv(EnvName(f.Name)); ok && !given {
			given = true
			if err := flags.Set(f.Name, value); err != nil {
				problems = append(problems, fmt.Errorf("environment variable %s (--%s): %s", EnvName(f.Name), f.Name, Remedy(f, value)))
			} else {
				origins[f.Name] = EnvName(f.Name)
			}
		}
		entry, ok := entries[f.Name]
		if !ok {
			return
		}
		value, err := text(f.Value.Type(), entry.value)
		if err == nil && !given && (value != "" || f.Value.Type() != formMap) { // an empty map is what no flag amounts to
			if flags.Set(f.Name, value) != nil {
				err = errors.New(Remedy(f, value))
			}
			origins[f.Name] = fmt.Sprintf("%s in %s, line %d", entry.key, s.File.path, entry.line)
		}
		if err != nil {
			delete(origins, f.Name)
			problems = append(problems, fmt.Errorf("%s, line %d: %s: %w", s.File.path, entry.line, entry.key, err))
		}
	})
	return origins, problems
}

// match finds the flag of each entry, and the entries that are none's.
func (f *File) match(flags *pflag.FlagSet) (map[string]entry, []error) {
	entries := map[string]entry{}
	if f == nil {
		return entries, nil
	}
	names := map[string]string{}
	var keys []string
	flags.VisitAll(func(flag *pflag.Flag) {
		if key := Key(flag.Name); key != "" {
			names[key] = flag.Name
			keys = append(keys, key)
		}
	})
	var problems []error
	for _, e := range f.entries {
		if name, ok := names[e.key]; ok {
			entries[name] = e
			continue
		}
		problem := fmt.Sprintf("%s, line %d: %s is no setting of a %s", f.path, e.line, e.key, f.kind)
		if near := Nearest(e.key, keys); near != "" {
			problem += fmt.Sprintf("; did you mean %s?", near)
		} else {
			problem += ": leave it out"
		}
		problems = append(problems, fmt.Errorf("%s", problem))
	}
	return entries, problems
}

// flagInText finds flags in what is told to people.
var flagInText = regexp.MustCompile(`(?:^|[\s"(])--?([a-z][a-z0-9-]*)`)

// Explain adds to one line about flags where the values of those came from that are not on the command line.
func (o Origins) Explain(line string) string {
	var notes []string
	seen := map[string]bool{}
	for _, match := range flagInText.FindAllStringSubmatch(line, -1) {
		name := match[1]
		if origin, ok := o[name]; ok && !seen[name] {
			seen[name] = true
			notes = append(notes, fmt.Sprintf("--%s comes from %s", name, origin))
		}
	}
	if len(notes) == 0 {
		return line
	}
	return line + " (" + strings.Join(notes, "; ") + ")"
}
