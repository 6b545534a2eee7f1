// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

const (
	suiteTimeout = 3 * time.Hour
	// sayInterval is how often a running suite says how far it is.
	sayInterval = time.Minute
)

// runSuite runs the selection on a cluster and returns the results. The output of the suite and its reports go to dir.
func runSuite(ctx context.Context, cluster *testbed.Cluster, s selection, processes int, dir string, out io.Writer) (Results, error) {
	watching, stop := context.WithCancel(ctx)
	seen, wait, err := watchRefusals(watching, cluster.Client())
	if err != nil {
		stop()
		return nil, fmt.Errorf("watching for refused pods: %w", err)
	}
	defer func() { stop(); wait() }()

	logFile := filepath.Join(dir, "suite.log")
	log, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	const reportName = "report.json"
	args := append([]string{
		"--procs=" + strconv.Itoa(processes), "--timeout=" + suiteTimeout.String(), "--no-color", "--silence-skips",
		"--output-dir=" + dir, "--json-report=" + reportName, "--junit-report=report.xml",
	}, s.arguments()...)
	args = append(args, filepath.Join(cluster.Bin(), "e2e.test"), "--")
	args = append(args, flagsFor(cluster)...)
	cmd := cluster.Command(ctx, "ginkgo", args...)
	// An interrupt has ginkgo clean up and write its report.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	progress := newDots(log, out)
	cmd.Stdout, cmd.Stderr = progress, progress
	ran := cmd.Run()
	progress.stop()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	data, err := os.ReadFile(filepath.Join(dir, reportName))
	if err != nil {
		return nil, fmt.Errorf("the suite wrote no report: %w; output: %s", errors.Join(ran, err), logFile)
	}
	// That tests failed is in the report.
	if exit := (&exec.ExitError{}); ran != nil && !errors.As(ran, &exit) {
		return nil, fmt.Errorf("running ginkgo: %w; output: %s", ran, logFile)
	}
	results, err := parseReport(data, seen.fields())
	if err != nil {
		return nil, fmt.Errorf("%w; output: %s", err, logFile)
	}
	return results, nil
}

// suiteFlags are flags of the suite itself.
const suiteFlags = "--provider=skeleton --num-nodes=1 --minStartupPods=0 --allowed-not-ready-nodes=-1 --dump-logs-on-failure=false"

// flagsFor are suiteFlags and where the cluster is.
func flagsFor(cluster *testbed.Cluster) []string {
	return append(strings.Fields(suiteFlags),
		"--kubeconfig="+cluster.Kubeconfig(), "--kubectl-path="+filepath.Join(cluster.Bin(), "kubectl"))
}

// dots counts the tests that have ended, of which ginkgo prints a dot for each, and says so now and then.
type dots struct {
	log, out io.Writer
	ended    atomic.Int64
	begin    time.Time
	quit     chan struct{}
	done     chan struct{}
}

// newDots starts saying; the caller must call stop.
func newDots(log, out io.Writer) *dots {
	d := &dots{log: log, out: out, begin: time.Now(), quit: make(chan struct{}), done: make(chan struct{})}
	go d.say()
	return d
}

func (d *dots) Write(b []byte) (int, error) {
	for _, r := range string(b) {
		if r == '•' {
			d.ended.Add(1)
		}
	}
	return d.log.Write(b)
}

func (d *dots) say() {
	defer close(d.done)
	ticker := time.NewTicker(sayInterval)
	defer ticker.Stop()
	for {
		select {
		case <-d.quit:
			return
		case <-ticker.C:
			fmt.Fprintf(d.out, "  %d tests have ended after %s\n", d.ended.Load(), time.Since(d.begin).Round(time.Second))
		}
	}
}

func (d *dots) stop() {
	close(d.quit)
	<-d.done
}
