// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario runs the real lifecycle engine against a runtime, a host and an API in memory, in a bubble with a fake
// clock, and looks at what comes out. It has two kinds of tests.
//
// A case is a file in cases: pods, a script of timed commands, and the trace that must come out (see Case for the format).
// Each is named after a behaviour that somebody found missing somewhere.
//
// A random run (see Run) draws pods, behaviours of containers and a history of commands and failures from a seed, heals
// everything at its end, and lets a Guard watch over the invariants of the design. Checkers know the trace and the state of
// the outside, and nothing of the engine. A failure is told with its seed and the operations that it needs.
//
// For each invariant there is an engine that was broken on purpose (see TestBrokenEnginesAreCaught): its checker must see it.
//
// # Running
//
//	go test ./test/scenario                                     # all cases and 10,000 random runs
//	go test -short ./test/scenario                              # 500 random runs, as with -race
//	SCENARIO_RUNS=1000000 go test -timeout 0 -run Random ./test/scenario
//	SCENARIO_SEED=1234 go test -run Random -v ./test/scenario   # one run again, with its trace
//	SCENARIO_SEED=1234 SCENARIO_OPS=2,3,5 …                     # only these of its operations
//	SCENARIO_CASE=name go test -run Cases -v ./test/scenario    # one case, with its trace
//
// # Concurrency
//
// A World belongs to one bubble of testing/synctest. Its parts may be used by every goroutine in it. Locks are taken in
// the order API, host, runtime, trace.
package scenario
