// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"slices"
	"strings"
	"unicode"
)

// envPrefix begins the name of every environment variable that stands in for a flag.
const envPrefix = "TOMBOLO_"

// reserved are flags that are no settings of a node or a host. All but help and version have a variable.
var reserved = []string{"config", "help", "output", "timeout", "version"}

// acronyms are words of flags that are written in capitals in a key, as in Kubernetes' own configuration files.
var acronyms = map[string]string{
	"ca": "CA", "dns": "DNS", "id": "ID", "ip": "IP", "pids": "PIDs", "qos": "QOS", "ssh": "SSH", "tls": "TLS", "url": "URL",
}

// EnvName returns the name of the environment variable that stands in for a flag.
func EnvName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Key returns the key in a file that stands in for a flag, "" for flags that have none.
func Key(flag string) string {
	if slices.Contains(reserved, flag) {
		return ""
	}
	words := strings.Split(flag, "-")
	for i, word := range words {
		switch {
		case i == 0:
		case acronyms[word] != "":
			words[i] = acronyms[word]
		case word != "":
			words[i] = strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return strings.Join(words, "")
}

// Nearest returns the candidate that was most likely meant by name, "" if none is like it. Case and punctuation do not count.
func Nearest(name string, candidates []string) string {
	name = letters(name)
	best, distance := "", max(1, len(name)/3)+1
	for _, candidate := range candidates {
		d := editDistance(name, letters(candidate))
		if len(name) > 3 && d >= distance && (strings.HasPrefix(letters(candidate), name) || strings.HasSuffix(letters(candidate), name)) {
			d = distance - 1 // a part of the name will do if there is nothing better
		}
		if d < distance {
			best, distance = candidate, d
		}
	}
	return best
}

// letters are the letters and digits of a name, in lower case.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}

// editDistance is how many letters have to be added, taken away, replaced or exchanged with their neighbours to make b of a.
func editDistance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
