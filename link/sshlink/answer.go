// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package sshlink

import (
	"bytes"
	"fmt"
	"path"
	"strings"
	"sync"
)

// maxAnswer is how much of what a host says is looked at.
const maxAnswer = 64 << 10

// answerPrefix begins the lines of a script's output that are for us. Login shells may write others.
const answerPrefix = "tombolo: "

// answer is one such line: a word and what follows it.
type answer struct{ word, rest string }

// parseAnswers finds the lines that are for us.
func parseAnswers(output []byte) []answer {
	var answers []answer
	for line := range bytes.Lines(output) {
		if a, ok := parseAnswer(string(line)); ok {
			answers = append(answers, a)
		}
	}
	return answers
}

func parseAnswer(line string) (answer, bool) {
	text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), answerPrefix)
	if !ok {
		return answer{}, false
	}
	word, rest, _ := strings.Cut(text, " ")
	return answer{word, rest}, true
}

// place is what there is to know of a host before something is run on it.
type place struct {
	// arch is the architecture as Go names it.
	arch string
	// cache is the absolute path of the directory for programs.
	cache string
}

// architectures are Go's names for what uname -m says of machines that Go programs run on.
var architectures = map[string]string{
	"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "armv6l": "arm", "armv7l": "arm", "armv8l": "arm",
	"i386": "386", "i486": "386", "i586": "386", "i686": "386", "riscv64": "riscv64", "s390x": "s390x", "ppc64le": "ppc64le",
	"loongarch64": "loong64", "mips64": "mips64", "ppc64": "ppc64",
}

// parsePlace reads the answers to lookScript.
func parsePlace(answers []answer) (place, error) {
	var p place
	for _, a := range answers {
		switch a.word {
		case "machine":
			system, hardware, _ := strings.Cut(a.rest, " ")
			if system != "Linux" {
				return place{}, fmt.Errorf("the host runs %q: only Linux hosts run pods", system)
			}
			if p.arch = architectures[hardware]; p.arch == "" {
				return place{}, fmt.Errorf("the host's architecture %q is not one that tombolo is built for", hardware)
			}
		case "cache":
			if !path.IsAbs(a.rest) || path.Clean(a.rest) == "/" {
				return place{}, fmt.Errorf("the cache directory on the host would be %q, which is no absolute path: give one with --host-ssh-cache-dir", a.rest)
			}
			p.cache = path.Clean(a.rest)
		}
	}
	if p.arch == "" || p.cache == "" {
		return place{}, fmt.Errorf("the host did not answer what uname -sm says: a command that is forced in authorized_keys or sshd_config, or a restricted shell, " +
			"runs instead of what is asked for")
	}
	return p, nil
}

// bounded keeps the beginning of what is written to it.
type bounded struct {
	limit int

	mu   sync.Mutex
	data []byte
}

// Write never fails.
func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.data = append(b.data, p[:min(len(p), b.limit-len(b.data))]...)
	return len(p), nil
}

func (b *bounded) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.data)
}
