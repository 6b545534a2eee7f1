// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package local

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tombolo-dev/tombolo/host"
)

// Names of the directories of huge pages in /sys, and what is the largest size in KiB that one is believed to be of.
const (
	hugePagesPrefix = "hugepages-"
	hugePagesSuffix = "kB"
	maxHugePageKiB  = 1 << 40
)

// maxCPUs bounds what a list of processors may claim.
const maxCPUs = 1 << 16

// parseMeminfo reads /proc/meminfo into bytes by name. Lines it does not understand are left out.
func parseMeminfo(data []byte) map[string]uint64 {
	out := make(map[string]uint64)
	for line := range bytes.Lines(data) {
		name, value, ok := strings.Cut(string(line), ":")
		if !ok {
			continue
		}
		fields := strings.Fields(value)
		if len(fields) != 2 || fields[1] != "kB" {
			continue
		}
		if n, err := strconv.ParseUint(fields[0], 10, 64); err == nil && n <= math.MaxUint64/1024 {
			out[name] = n * 1024
		}
	}
	return out
}

// parseLoadavg returns how many processes and threads exist, from /proc/loadavg.
func parseLoadavg(data []byte) uint64 {
	fields := strings.Fields(string(data))
	if len(fields) < 4 {
		return 0
	}
	_, total, _ := strings.Cut(fields[3], "/")
	return parseUint([]byte(total))
}

// parseUint reads a file with one number; 0 if there is none.
func parseUint(data []byte) uint64 {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// parseSubordinates returns the ranges of a user in /etc/subuid or /etc/subgid.
func parseSubordinates(data []byte, user string) []host.IDRange {
	var out []host.IDRange
	for line := range bytes.Lines(data) {
		fields := strings.Split(strings.TrimSpace(string(line)), ":")
		if len(fields) != 3 || fields[0] != user {
			continue
		}
		first, errFirst := strconv.ParseUint(fields[1], 10, 32)
		length, errLength := strconv.ParseUint(fields[2], 10, 32)
		if errFirst == nil && errLength == nil {
			out = append(out, host.IDRange{First: uint32(first), Length: uint32(length)})
		}
	}
	return out
}

// parseHugePageSizes reads the names of directories such as hugepages-2048kB into bytes, in ascending order.
func parseHugePageSizes(names []string) []uint64 {
	var out []uint64
	for _, name := range names {
		size, begins := strings.CutPrefix(name, hugePagesPrefix)
		size, ends := strings.CutSuffix(size, hugePagesSuffix)
		if !begins || !ends {
			continue
		}
		if n, err := strconv.ParseUint(size, 10, 64); err == nil && n > 0 && n <= maxHugePageKiB {
			out = append(out, n*1024)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// parseOwnCgroup returns the path of this process in the unified hierarchy, from /proc/self/cgroup; "" if it is in none.
func parseOwnCgroup(data []byte) string {
	for line := range bytes.Lines(data) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "0::"); ok {
			return path
		}
	}
	return ""
}

// parseCPUList counts the processors of a list such as "0-3,8"; 0 if it cannot be read.
func parseCPUList(data []byte) int {
	count := 0
	for part := range strings.SplitSeq(string(bytes.TrimSpace(data)), ",") {
		first, last, isRange := strings.Cut(part, "-")
		low, err := strconv.Atoi(first)
		if err != nil {
			return 0
		}
		high := low
		if isRange {
			if high, err = strconv.Atoi(last); err != nil {
				return 0
			}
		}
		if low < 0 || high < low || high >= maxCPUs {
			return 0
		}
		if count += high - low + 1; count > maxCPUs {
			return 0
		}
	}
	return count
}

// parseOSRelease returns PRETTY_NAME of an os-release file, which has the syntax of shell assignments.
func parseOSRelease(data []byte) string {
	for line := range bytes.Lines(data) {
		value, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "PRETTY_NAME=")
		if ok {
			return unquoteShell(value)
		}
	}
	return ""
}

// unquoteShell removes the quotes of one shell word, and the backslashes that a quoted word needs.
func unquoteShell(word string) string {
	if len(word) < 2 {
		return word
	}
	quote := word[0]
	if (quote != '"' && quote != '\'') || word[len(word)-1] != quote {
		return word
	}
	word = word[1 : len(word)-1]
	if quote == '"' {
		word = strings.NewReplacer(`\"`, `"`, `\$`, `$`, `\\`, `\`, "\\`", "`").Replace(word)
	}
	return word
}

// Flags of routes, from the kernel's route.h.
const (
	routeUp     = 0x1
	routeReject = 0x200
)

// parseDefaultRoute returns the interface of the IPv4 default route with the lowest metric, from /proc/net/route.
func parseDefaultRoute(data []byte) string {
	const (
		colInterface, colDestination, colFlags, colMetric, colMask = 0, 1, 3, 6, 7
	)
	best, lowest := "", uint64(math.MaxUint64)
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) <= colMask || !isZeroHex(fields[colDestination]) || !isZeroHex(fields[colMask]) {
			continue
		}
		flags, err := strconv.ParseUint(fields[colFlags], 16, 64)
		if err != nil || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		metric, err := strconv.ParseUint(fields[colMetric], 10, 64)
		if err == nil && metric < lowest {
			best, lowest = fields[colInterface], metric
		}
	}
	return best
}

// parseDefaultRoute6 returns the interface of the IPv6 default route with the lowest metric, from /proc/net/ipv6_route.
func parseDefaultRoute6(data []byte) string {
	const (
		colDestination, colPrefix, colMetric, colFlags, colInterface = 0, 1, 5, 8, 9
	)
	best, lowest := "", uint64(math.MaxUint64)
	for line := range bytes.Lines(data) {
		fields := strings.Fields(string(line))
		if len(fields) <= colInterface || !isZeroHex(fields[colDestination]) || !isZeroHex(fields[colPrefix]) {
			continue
		}
		flags, err := strconv.ParseUint(fields[colFlags], 16, 64)
		if err != nil || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		metric, err := strconv.ParseUint(fields[colMetric], 16, 64)
		if err == nil && metric < lowest {
			best, lowest = fields[colInterface], metric
		}
	}
	return best
}

// isZeroHex says whether text is hexadecimal and all zeros.
func isZeroHex(text string) bool {
	raw, err := hex.DecodeString(text)
	return err == nil && len(raw) > 0 && len(bytes.Trim(raw, "\x00")) == 0
}

// parseCgroups returns the controllers that are enabled in a list like /proc/cgroups, ordered by name.
func parseCgroups(data []byte) []string {
	var names []string
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 4 && fields[3] == "1" {
			names = append(names, fields[0])
		}
	}
	slices.Sort(names)
	return names
}
