// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// A Layer is a set of files. Missing parent folders are added, entries are written in order of their paths.
type Layer []File

// A File is one entry of a layer. Exactly one of Source, Data, Link and Folder says what it is; with none it is an empty file.
type File struct {
	// Path is absolute in the image.
	Path string
	// Source is the file on this machine the content is read from.
	Source string
	// Data is the content.
	Data string
	// Link is the target of a symbolic link.
	Link string
	// Folder makes an empty folder.
	Folder bool
	// Mode are the permission bits as in a tar header, with 0o1000 for the sticky bit; 0 means 0o755.
	Mode int64
	// UID and GID own the entry.
	UID, GID int
}

func (f File) mode() int64 {
	if f.Mode == 0 {
		return 0o755
	}
	return f.Mode
}

// write writes the layer as an uncompressed tar stream. A path given twice is an error, since which one wins would depend
// on the reader.
func (l Layer) write(w io.Writer) error {
	files, err := l.complete()
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	for _, f := range files {
		if err := f.write(t); err != nil {
			return fmt.Errorf("adding %s: %w", f.Path, err)
		}
	}
	return t.Close()
}

// complete returns the files with their parent folders, ordered so that a folder comes before what is in it.
func (l Layer) complete() ([]File, error) {
	byPath := map[string]File{}
	for _, f := range l {
		clean := path.Clean(f.Path)
		if !path.IsAbs(clean) || clean == "/" {
			return nil, fmt.Errorf("path %q is not absolute", f.Path)
		}
		if _, twice := byPath[clean]; twice {
			return nil, fmt.Errorf("path %s is given twice", clean)
		}
		f.Path = clean
		byPath[clean] = f
	}
	for _, f := range l {
		for parent := path.Dir(path.Clean(f.Path)); parent != "/"; parent = path.Dir(parent) {
			if _, ok := byPath[parent]; !ok {
				byPath[parent] = File{Path: parent, Folder: true}
			}
		}
	}
	files := make([]File, 0, len(byPath))
	for _, f := range byPath {
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, nil
}

func (f File) write(t *tar.Writer) error {
	header := &tar.Header{
		Name: strings.TrimPrefix(f.Path, "/"), Mode: f.mode(), Uid: f.UID, Gid: f.GID, ModTime: created, Format: tar.FormatPAX,
	}
	switch {
	case f.Folder:
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return t.WriteHeader(header)
	case f.Link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.Link, 0o777
		return t.WriteHeader(header)
	case f.Source != "":
		return copyFile(t, header, f.Source)
	default:
		header.Typeflag, header.Size = tar.TypeReg, int64(len(f.Data))
		if err := t.WriteHeader(header); err != nil {
			return err
		}
		_, err := io.WriteString(t, f.Data)
		return err
	}
}

func copyFile(t *tar.Writer, header *tar.Header, source string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := t.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(t, in)
	return err
}
