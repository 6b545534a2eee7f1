// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc/<pid>/stat: on Linux always a hundredth of a second for user space.
const tick = 10 * time.Millisecond

// processUsage returns what a process has used of processor time, children aside, and uses of memory.
func processUsage(pid int) (cpu time.Duration, memory int64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("measuring a process: %w", err)
	}
	return parseStat(string(data), int64(os.Getpagesize()))
}

// parseStat reads a line of /proc/<pid>/stat.
func parseStat(line string, pageSize int64) (cpu time.Duration, memory int64, err error) {
	// The second field is the program's name in parentheses, which may hold blanks and parentheses.
	i := strings.LastIndexByte(line, ')')
	fields := strings.Fields(line[i+1:])
	const user, system, resident = 11, 12, 21 // counted from the third field
	if i < 0 || len(fields) <= resident {
		return 0, 0, fmt.Errorf("measuring a process: %q is no line of /proc/<pid>/stat", line)
	}
	var numbers [3]int64
	for i, field := range []int{user, system, resident} {
		if numbers[i], err = strconv.ParseInt(fields[field], 10, 64); err != nil {
			return 0, 0, fmt.Errorf("measuring a process: %w", err)
		}
	}
	return time.Duration(numbers[0]+numbers[1]) * tick, numbers[2] * pageSize, nil
}
