// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// commentWidth is where comments in a written file are broken.
const commentWidth = 110

// Defaults returns a file of the kind with every setting, its meaning and its default. Flags that are hidden are left out.
func Defaults(kind string, flags *pflag.FlagSet) (string, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "apiVersion: %s\nkind: %s\n", APIVersion, kind)
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		key := Key(f.Name)
		if key == "" || f.Hidden {
			return
		}
		value, err := Default(f)
		if err != nil {
			failed = err
			return
		}
		line, err := yaml.Marshal(map[string]any{key: value})
		if err != nil {
			failed = err
			return
		}
		fmt.Fprintf(&out, "\n%s%s", comment(f.Usage), line)
	})
	return out.String(), failed
}

// Default returns the default of a flag that was not set, as a file has it.
func Default(f *pflag.Flag) (any, error) {
	switch v := f.Value.(type) {
	case pflag.SliceValue:
		return append([]string{}, v.GetSlice()...), nil
	default:
	}
	switch f.Value.Type() {
	case formMap:
		return map[string]string{}, nil
	case formString, formDuration:
		return f.DefValue, nil
	case formBool:
		return f.DefValue == "true", nil
	case formInt, formInt64:
		var n int64
		_, err := fmt.Sscan(f.DefValue, &n)
		return n, err
	default:
		return nil, fmt.Errorf("--%s is of the form %q, which has no place in a file", f.Name, f.Value.Type())
	}
}

// comment breaks a text into lines of comments.
func comment(text string) string {
	var out strings.Builder
	width := 0
	for word := range strings.FieldsSeq(text) {
		if width > 0 && width+1+len(word) > commentWidth {
			out.WriteString("\n")
			width = 0
		}
		if width == 0 {
			out.WriteString("#")
			width = 1
		}
		out.WriteString(" " + word)
		width += 1 + len(word)
	}
	out.WriteString("\n")
	return out.String()
}
