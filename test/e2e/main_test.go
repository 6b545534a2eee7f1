// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

const (
	setUpTimeout    = 15 * time.Minute // building tombolo without a cache takes most of it
	tearDownTimeout = time.Minute
	// parallelTests is how many tests run at the same time. Most of the time they wait, but more would wait for the processor.
	parallelTests = 5
)

// suite is what all tests share; nil if end-to-end tests were not asked for.
var suite *environment

// environment is the cluster with its sites.
type environment struct {
	cluster *testbed.Cluster
	binary  string
	pki     string // folder of the link's authority and certificates

	calm, storm, squall, shore *site
}

func TestMain(m *testing.M) {
	if port := os.Getenv(deafVariable); port != "" {
		listenDeafly(port)
	}
	if archive := os.Getenv(privateVariable); archive != "" {
		servePrivately(archive)
	}
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("TOMBOLO_E2E") == "" {
		return m.Run() // each test says how it is run and skips
	}
	if os.Geteuid() != 0 {
		fmt.Println("TOMBOLO_E2E is set, but the end-to-end tests make network namespaces and run containerd: run them as root")
		return 1
	}
	if n := flag.Lookup("test.parallel"); n.Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		_ = n.Value.Set(fmt.Sprint(parallelTests))
	}
	e, err := setUp()
	if err != nil {
		fmt.Printf("setting up the end-to-end tests: %v\n", err)
		if e != nil && e.cluster != nil {
			fmt.Printf("logs: %s\n", e.cluster.LogDir())
			_ = e.tearDown()
		}
		return 1
	}
	suite = e
	code := m.Run()
	if err := e.tearDown(); err != nil {
		fmt.Printf("tearing down the end-to-end tests: %v\n", err)
		code = 1
	}
	if code != 0 {
		fmt.Printf("logs of every part: %s\n", e.cluster.LogDir())
		return code
	}
	if err := os.RemoveAll(e.cluster.StateDir()); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// setUp starts the cluster and the sites. What it started is returned with an error, too.
func setUp() (*environment, error) {
	ctx, cancel := context.WithTimeout(context.Background(), setUpTimeout)
	defer cancel()
	begin := time.Now()
	e := &environment{}
	options := testbed.Options{Log: os.Stdout, ControllerManagerFlags: []string{"--cluster-signing-duration=" + certificateLife.String()}}
	if os.Getenv(updatesVariable) != "" { // so many versions of a mebibyte are more than etcd holds
		options.APIServerFlags = []string{"--etcd-compaction-interval=1m"}
	}
	cluster, err := testbed.Start(ctx, options)
	if err != nil {
		return e, err
	}
	e.cluster = cluster
	if e.binary, err = buildTombolo(ctx, cluster); err != nil {
		return e, err
	}
	e.pki = filepath.Join(cluster.StateDir(), "link")
	if err := e.tombolo(ctx, "pki", "init", "--dir", e.pki); err != nil {
		return e, err
	}
	e.calm, e.storm, e.squall, e.shore = e.newSite("calm"), e.newSite("storm"), e.newSite("squall"), e.newSite("shore")
	e.calm.hostArgs = []string{"--node-name", e.calm.name}
	e.shore.inProcess = true
	for _, s := range []*site{e.calm, e.storm, e.squall} {
		if err := s.reachBy(os.Getenv(linkVariable)); err != nil {
			return e, err
		}
	}
	var group errgroup.Group
	for _, s := range []*site{e.calm, e.storm, e.squall, e.shore} {
		group.Go(func() error {
			if err := s.start(ctx); err != nil {
				return fmt.Errorf("starting site %s: %w", s.name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return e, err
	}
	fmt.Printf("four nodes are Ready (%.1f s)\n", time.Since(begin).Seconds())
	return e, nil
}

// binaryVariable names a binary to test instead of one built for the occasion.
const binaryVariable = "TOMBOLO_E2E_BINARY"

// buildTombolo builds the program under test, in the way of a release.
func buildTombolo(ctx context.Context, cluster *testbed.Cluster) (string, error) {
	if binary := os.Getenv(binaryVariable); binary != "" {
		return filepath.Abs(binary)
	}
	begin := time.Now()
	binary := filepath.Join(cluster.StateDir(), "tombolo")
	cmd := cluster.Command(ctx, "go", "build", "-trimpath", "-o", binary, "../../cmd/tombolo")
	cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building tombolo: %w\n%s", err, out)
	}
	fmt.Printf("built tombolo (%.1f s)\n", time.Since(begin).Seconds())
	return binary, nil
}

// tombolo runs a sub-command that ends by itself.
func (e *environment) tombolo(ctx context.Context, args ...string) error {
	if out, err := e.cluster.Command(ctx, e.binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("tombolo %v: %w\n%s", args, err, out)
	}
	return nil
}

func (e *environment) tearDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), tearDownTimeout)
	defer cancel()
	var errs []error
	for _, s := range []*site{e.calm, e.storm, e.squall, e.shore} {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(append(errs, e.cluster.Stop(ctx))...)
}

// require skips the test if there is no cluster to run it on.
func require(t *testing.T) *environment {
	t.Helper()
	testbed.RequireE2E(t)
	if suite == nil {
		t.Fatal("the environment was not set up")
	}
	return suite
}
