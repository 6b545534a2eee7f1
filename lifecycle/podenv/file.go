// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podenv

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Files reads files that containers of the pod wrote before.
type Files interface {
	// ReadFile returns the content of a file of a volume of the pod. An error of class Unavailable says that the host could not be
	// asked; any other is about the file, which may be missing, too large, no regular file, or outside the volume.
	ReadFile(ctx context.Context, pod *v1.Pod, volume, path string) ([]byte, error)
}

// HostError says that the host could not be asked for a file, which says nothing of the pod. It is Unavailable.
type HostError struct{ cause error }

// Error returns the text of the cause.
func (e *HostError) Error() string { return e.cause.Error() }

// Unwrap returns the class and the cause.
func (e *HostError) Unwrap() []error { return []error{errdefs.ErrUnavailable, e.cause} }

// fileKey takes the value of a variable from a file. found is false if it may be missing and is. Messages are the kubelet's.
func (r *resolver) fileKey(ctx context.Context, ref *v1.FileKeySelector) (value string, found bool, err error) {
	data, read := r.files[[2]string{ref.VolumeName, ref.Path}]
	if !read {
		data, err = r.Files.ReadFile(ctx, r.Pod, ref.VolumeName, ref.Path)
		if errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err) || ctx.Err() != nil {
			return "", false, &HostError{err}
		}
		if errdefs.IsInvalidArgument(err) {
			return "", false, fmt.Errorf("cannot find the volume %q referenced by FileKeyRef", ref.VolumeName)
		}
		if errdefs.IsNotFound(err) && ptr.Deref(ref.Optional, false) {
			return "", false, nil
		}
		if err != nil {
			return "", false, errUnreadable
		}
		r.files[[2]string{ref.VolumeName, ref.Path}] = data
	}
	value, err = ParseFile(string(data), ref.Key)
	switch {
	case err != nil:
		return "", false, errUnreadable
	case value == "" && !ptr.Deref(ref.Optional, false):
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	default:
		return value, value != "", nil
	}
}

// errUnreadable is all that the kubelet tells of a file that is missing or cannot be understood: its content may be secret.
var errUnreadable = errors.New("couldn't parse env file")

// ParseFile returns the first value that a file gives to a variable, "" if it gives none. Lines are NAME='value', where a value goes
// on over lines until its closing quote; they may begin with blanks and end with a comment. A line NAME= with nothing or blanks
// behind it gives an empty value. Empty lines and those that begin with "#" say nothing. What comes after the variable is not
// looked at.
func ParseFile(text, key string) (string, error) {
	for number := 1; text != ""; number++ {
		var line string
		line, text, _ = strings.Cut(text, "\n")
		line = strings.TrimLeft(strings.TrimSuffix(line, "\r"), blanks)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, ok := strings.Cut(line, "=")
		if !ok || name == "" || strings.TrimRight(name, blanks) != name {
			return "", fmt.Errorf("line %d does not begin with a name and '='", number)
		}
		value, after, lines, err := quoted(rest, text)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", number, err)
		}
		if name == key {
			return value, nil
		}
		text = after
		number += lines
	}
	return "", nil
}

// blanks separate words of a line.
const blanks = " \t"

// quoted reads a value from the rest of its line and the text below. It returns the text below the value and how many lines it
// took of that.
func quoted(rest, below string) (value, after string, lines int, err error) {
	if strings.TrimLeft(rest, blanks) != rest {
		return "", below, 0, nil
	}
	inside, ok := strings.CutPrefix(rest, "'")
	if !ok {
		return "", "", 0, errors.New("a value must be in single quotes")
	}
	var out strings.Builder
	for {
		part, tail, closed := strings.Cut(inside, "'")
		out.WriteString(part)
		if closed {
			tail = strings.TrimLeft(tail, blanks)
			if tail != "" && !strings.HasPrefix(tail, "#") {
				return "", "", 0, errors.New("there is something behind the value")
			}
			return out.String(), below, lines, nil
		}
		if below == "" {
			return "", "", 0, errors.New("the closing quote is missing")
		}
		out.WriteByte('\n')
		inside, below, _ = strings.Cut(below, "\n")
		inside = strings.TrimSuffix(inside, "\r")
		lines++
	}
}
