// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// A Block is a code block of a document.
type Block struct {
	// File is the document, relative to the repository; Line is where the block begins.
	File string
	Line int
	// Language is what the document says it is, "" if nothing.
	Language string
	Text     string
}

// Name is for messages.
func (b Block) Name() string { return fmt.Sprintf("%s:%d", b.File, b.Line) }

// First is the block's first line.
func (b Block) First() string {
	line, _, _ := strings.Cut(b.Text, "\n")
	return line
}

// IsShell tells whether it is made of commands.
func (b Block) IsShell() bool { return b.Language == "" || b.Language == "sh" }

// fence begins and ends a block.
const fence = "```"

// Parse returns the blocks of a document.
func Parse(file, text string) (out []Block, err error) {
	var open *Block
	for number, line := range strings.Split(text, "\n") {
		language, isFence := strings.CutPrefix(strings.TrimSpace(line), fence)
		switch {
		case isFence && open == nil:
			open = &Block{File: file, Line: number + 1, Language: language}
		case isFence:
			out = append(out, *open)
			open = nil
		case open != nil:
			open.Text += line + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s: the block has no end", open.Name())
	}
	return out, nil
}

// All returns the blocks of all documents of the repository in root.
func All(root string) (out []Block, err error) {
	files := os.DirFS(root)
	err = fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "testdata" || entry.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		blocks, err := Parse(path, string(text))
		out = append(out, blocks...)
		return err
	})
	return out, err
}

var hereDocument = regexp.MustCompile(`(?ms)<<'?([A-Z]+)'?$\n(.*?)^([A-Z]+)$`)

// HereDocuments are the texts that the commands of a block read from the block itself.
func (b Block) HereDocuments() (out []string) {
	for _, found := range hereDocument.FindAllStringSubmatch(b.Text, -1) {
		if found[1] == found[3] {
			out = append(out, found[2])
		}
	}
	return out
}
