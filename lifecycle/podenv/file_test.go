// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestParseFile(t *testing.T) {
	for name, tt := range map[string]struct {
		text, want string
		fails      bool
	}{
		"a value":                      {text: "A='1'\nB='2'\n", want: "2"},
		"without a last line end":      {text: "B='2'", want: "2"},
		"the first one counts":         {text: "B='1'\nB='2'\n", want: "1"},
		"over lines":                   {text: "A='x\ny'\nB='1\n\n 2'\n", want: "1\n\n 2"},
		"a name in a value is none":    {text: "A='\nB=1\n'\nB='2'\n", want: "2"},
		"everything is literal":        {text: `B='$A \\n "x" #'`, want: `$A \\n "x" #`},
		"comments and blanks":          {text: "\n# B='0'\n \t B='2' \t# two\n", want: "2"},
		"lines of another system":      {text: "A='1'\r\nB='2'\r\n", want: "2"},
		"missing":                      {text: "A='1'\n"},
		"empty file":                   {},
		"a blank before the value":     {text: "B= '2'\nB='3'\n"},
		"what comes after is not read": {text: "B='2'\nnonsense\n", want: "2"},
		"no sign":                      {text: "A\nB='2'\n", fails: true},
		"no name":                      {text: "='1'\nB='2'\n", fails: true},
		"a blank before the sign":      {text: "A ='1'\nB='2'\n", fails: true},
		"no quotes":                    {text: "A=1\nB='2'\n", fails: true},
		"double quotes":                {text: "B=\"2\"\n", fails: true},
		"no closing quote":             {text: "B='2\n", fails: true},
		"something behind":             {text: "B='2'x\n", fails: true},
		"export":                       {text: "export B='2'\n", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseFile(tt.text, "B")
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

func FuzzParseFile(f *testing.F) {
	for _, seed := range []string{"B='1'", "A='\n'\nB='2' # x\n", "B= 'x'", "# x\n\nB='a\nb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value, err := ParseFile(text, "B")
		if err != nil && value != "" {
			t.Errorf("%q and %v", value, err)
		}
		if strings.Contains(value, "'") {
			t.Errorf("a quote in the value %q", value)
		}
		if err == nil && !strings.Contains(text, "\x00") && !strings.Contains(value, "\r") {
			again, err := ParseFile("B='"+value+"'", "B")
			if again != value || err != nil {
				t.Errorf("%q is read back as %q, %v", value, again, err)
			}
		}
	})
}

// fakeFiles are files by volume and path.
type fakeFiles struct {
	content map[string]string
	err     error
	reads   int
}

func (f *fakeFiles) ReadFile(_ context.Context, _ *v1.Pod, volume, path string) ([]byte, error) {
	f.reads++
	if text, ok := f.content[volume+"/"+path]; ok || f.err != nil {
		return []byte(text), f.err
	}
	return nil, fmt.Errorf("secret path of the host: %w", errdefs.ErrNotFound)
}

func fromFile(name, path, key string, optional bool) v1.EnvVar {
	return v1.EnvVar{Name: name, ValueFrom: &v1.EnvVarSource{FileKeyRef: &v1.FileKeySelector{
		VolumeName: "v", Path: path, Key: key, Optional: ptr.To(optional)}}}
}

func TestVariablesAreReadFromFiles(t *testing.T) {
	files := &fakeFiles{content: map[string]string{"v/env": "A='1'\nB='2'\n", "v/bad": "A 1"}}
	resolve := func(vars ...v1.EnvVar) (map[string]string, error) {
		out, err := Resolve(t.Context(), Input{Pod: &v1.Pod{}, Container: &v1.Container{Env: vars}, Objects: &fakeObjects{}, Files: files})
		if err != nil {
			return nil, err
		}
		got := map[string]string{}
		for _, e := range out.Env {
			got[e.GetKey()] = string(e.GetValue())
		}
		return got, nil
	}
	got, err := resolve(fromFile("X", "env", "A", false), fromFile("Y", "env", "B", false), fromFile("Z", "env", "C", true), fromFile("W", "none", "A", true),
		v1.EnvVar{Name: "V", Value: "$(X)$(Y)"})
	if diff := cmp.Diff(map[string]string{"X": "1", "Y": "2", "V": "12"}, got); diff != "" || err != nil || files.reads != 2 {
		t.Errorf("%v, %d reads: %s", err, files.reads, diff)
	}
	for want, v := range map[string]v1.EnvVar{
		`environment variable key "C" not found in file "env"`: fromFile("X", "env", "C", false),
		"couldn't parse env file":                              fromFile("X", "none", "A", false),
	} {
		if _, err := resolve(v); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := resolve(fromFile("X", "bad", "A", true)); err == nil || err.Error() != "couldn't parse env file" {
		t.Errorf("a file that cannot be understood: %v", err)
	}
	files.err = fmt.Errorf("no such volume: %w", errdefs.ErrInvalidArgument)
	if _, err := resolve(fromFile("X", "env", "A", true)); err == nil || err.Error() != `cannot find the volume "v" referenced by FileKeyRef` {
		t.Errorf("no volume: %v", err)
	}
	for _, class := range []error{errdefs.ErrUnavailable, context.DeadlineExceeded} {
		files.err = fmt.Errorf("the link is down: %w", class)
		var away *HostError
		if _, err := resolve(fromFile("X", "env", "A", true)); !errors.As(err, &away) || !errors.Is(err, errdefs.ErrUnavailable) {
			t.Errorf("a host that does not answer: %v", err)
		}
	}
}
