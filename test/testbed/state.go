// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// stateFile is the file in a state folder that makes it one.
const stateFile = "testbed.json"

// state is what has to be known about a testbed to use it from another process and to remove it. It is on disk before what
// it names is made.
type state struct {
	// ID marks everything the testbed makes.
	ID string `json:"id"`
	// Block is the address block; zero until it was chosen.
	Block netip.Prefix `json:"block,omitzero"`
	// Server is the URL of the API server; empty until its port was chosen.
	Server string `json:"server,omitempty"`
	// Bin is the folder of the programs.
	Bin       string      `json:"bin"`
	Hosts     []hostState `json:"hosts,omitempty"`
	Processes []recorded  `json:"processes,omitempty"`
}

type hostState struct {
	Name  string `json:"name"`
	Index uint32 `json:"index"` // 1 is the first; decides the addresses
	PID   int    `json:"pid"`   // of the process that holds the namespaces; 0 before it was started
}

func newID() string {
	var b [3]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// store keeps the state of one folder. Its methods may be called by several goroutines.
type store struct {
	dir string

	mu    sync.Mutex
	state state
}

// createStore makes the folder a state folder. It is an error if it is one already.
func createStore(dir string, s state) (*store, error) {
	if _, err := os.Stat(filepath.Join(dir, stateFile)); err == nil {
		return nil, fmt.Errorf("state folder %s holds a testbed already: stop or clean it first", dir)
	}
	st := &store{dir: dir, state: s}
	return st, st.update(func(*state) {})
}

// openStore reads the state of a folder; the error wraps os.ErrNotExist if it is not a state folder.
func openStore(dir string) (*store, error) {
	data, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, fmt.Errorf("opening testbed: %w", err)
	}
	st := &store{dir: dir}
	if err := json.Unmarshal(data, &st.state); err != nil {
		return nil, fmt.Errorf("opening testbed: %s: %w", stateFile, err)
	}
	if st.state.ID == "" {
		return nil, fmt.Errorf("opening testbed: %s has no id", filepath.Join(dir, stateFile))
	}
	return st, nil
}

func (st *store) get() state {
	st.mu.Lock()
	defer st.mu.Unlock()
	s := st.state
	s.Hosts = slices.Clone(s.Hosts)
	s.Processes = slices.Clone(s.Processes)
	return s
}

// update changes the state and returns once the change is on disk.
func (st *store) update(change func(*state)) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	change(&st.state)
	data, err := json.MarshalIndent(st.state, "", "  ")
	if err != nil {
		return fmt.Errorf("recording testbed state: %w", err)
	}
	name := filepath.Join(st.dir, stateFile)
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return fmt.Errorf("recording testbed state: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return fmt.Errorf("recording testbed state: %w", err)
	}
	return nil
}

func (st *store) addProcess(p recorded) error {
	return st.update(func(s *state) { s.Processes = append(s.Processes, p) })
}

func (st *store) removeProcess(p recorded) error {
	return st.update(func(s *state) {
		s.Processes = slices.DeleteFunc(s.Processes, func(q recorded) bool { return q == p })
	})
}

func isNotState(err error) bool { return errors.Is(err, os.ErrNotExist) }
