// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tombolo-dev/tombolo/test/docs"
	"github.com/tombolo-dev/tombolo/test/testbed"
)

// What every document calls the machine, and the addresses that they give to it and to where tombolo node runs. The testbed has them.
const (
	edgeName    = "edge-1"
	edgeAddress = "192.0.2.10"
	deskAddress = "198.51.100.5"
	deskName    = "node.example.com"
)

// repository is the root of the source tree.
const repository = "../.."

// guide follows documents word by word: it runs their blocks of commands as they stand, each where the document says.
type guide struct {
	*testing.T
	cluster *testbed.Cluster
	// edge is the machine with containerd, desk the place from which it and the cluster are reached.
	edge, desk *place
	// node is the machine as a node of the cluster.
	node *site
	// left are the blocks that have yet to be run, started how often each process was.
	left    map[docs.Key]docs.Block
	started map[string]int
}

// place is a machine on which commands are run, with the working directory of one document.
type place struct {
	host *testbed.Host
	dir  string
	env  []string
}

// newGuide makes a cluster for a reader of the documents and the two machines. test is the one that test/docs names.
func newGuide(t *testing.T, test string) *guide {
	t.Helper()
	left, err := docs.RunBy(repository, test)
	must(t, err)
	// Like those of kubeadm, its API server does not verify the certificates of kubelets.
	c := testbed.StartT(t, testbed.Options{Log: os.Stdout, APIServerFlags: []string{"--kubelet-certificate-authority="}})
	g := &guide{T: t, cluster: c, left: left, started: map[string]int{}, edge: &place{}, desk: &place{}}
	g.edge.host, err = c.AddHost(t.Context(), edgeName, testbed.HostOptions{})
	must(t, err)
	g.desk.host, err = c.AddHost(t.Context(), "desk", testbed.HostOptions{WithoutContainerd: true})
	must(t, err)
	g.desk.env = []string{"KUBECONFIG=" + c.Kubeconfig()}
	for _, p := range []*place{g.edge, g.desk} {
		must(t, os.Mkdir(p.programs(), 0o755))
	}
	g.prepareMachines()
	g.node = &site{env: &environment{cluster: c}, name: edgeName, host: g.edge.host}
	return g
}

// edgeSetup makes the machine one of the documents: containerd's socket at its usual path, a home of its own, addresses.
const edgeSetup = `set -e
mkdir /run/containerd
ln -s "$CONTAINERD_ADDRESS" /run/containerd/containerd.sock
mkdir "$HOME_CHANGES" "$HOME_CHANGES.work"
mount -t overlay -o lowerdir=/root,upperdir="$HOME_CHANGES",workdir="$HOME_CHANGES.work" overlay /root
ip address add ` + edgeAddress + `/32 dev eth0
ip route add ` + deskAddress + ` via "$DESK"
echo ` + deskAddress + ` ` + deskName + ` >> /etc/hosts
`

// deskSetup gives the place its address, from which it also reaches the cluster.
const deskSetup = `set -e
network=$(ip -4 route show dev eth0 scope link | cut -d ' ' -f 1)
ip address add ` + deskAddress + `/32 dev eth0
ip route change "$network" dev eth0 src ` + deskAddress + `
ip route add ` + edgeAddress + ` via "$EDGE"
`

// prepareMachines gives the machines what the documents presume.
func (g *guide) prepareMachines() {
	g.Helper()
	edge, desk := g.edge.host, g.desk.host
	for _, setup := range []struct {
		host   *testbed.Host
		script string
		env    []string
	}{
		{edge, edgeSetup, []string{"HOME_CHANGES=" + filepath.Join(edge.Dir(), "home"), "DESK=" + desk.Address().String()}},
		{desk, deskSetup, []string{"EDGE=" + edge.Address().String()}},
	} {
		_, err := setup.host.Exec(g.Context(), "env", append(setup.env, "sh", "-c", setup.script)...)
		must(g.T, err)
	}
	// The API server calls the node there. Another run of the tests on this machine may have the address at the moment.
	route := []string{deskAddress, "via", desk.Address().String()}
	eventually(g.T, usual, "a route to "+deskAddress, func() error {
		if out, err := exec.CommandContext(g.Context(), "ip", append([]string{"route", "add"}, route...)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	g.Cleanup(func() {
		if out, err := exec.CommandContext(context.WithoutCancel(g.Context()), "ip", append([]string{"route", "del"}, route...)...).CombinedOutput(); err != nil {
			g.Errorf("%v: %s", err, out)
		}
	})
}

// part is the guide for a subtest.
func (g *guide) part(t *testing.T) *guide {
	return &guide{T: t, cluster: g.cluster, edge: g.edge, desk: g.desk, node: g.node, left: g.left, started: g.started}
}

// open begins a document, in new working directories, on a cluster that does not know the node.
func (g *guide) open(name string) {
	g.Helper()
	_, err := g.cluster.Kubectl(g.Context(), "delete", "node", edgeName, "--ignore-not-found")
	must(g.T, err)
	for _, p := range []*place{g.edge, g.desk} {
		p.dir = p.workDir(name)
		must(g.T, os.MkdirAll(p.dir, 0o755))
	}
}

// block returns the block of a document that begins with a text, which has to be run then.
func (g *guide) block(document, begin string) string {
	g.Helper()
	for key, b := range g.left {
		if key.File == document && strings.HasPrefix(key.First, begin) {
			delete(g.left, key)
			return b.Text
		}
	}
	g.Fatalf("%s has no block for this test that begins with %q", document, begin)
	return ""
}

// replaced is a block in which a reader has to replace something.
func (g *guide) replaced(text, old, by string) string {
	g.Helper()
	if !strings.Contains(text, old) {
		g.Fatalf("there is no %q to be replaced in:\n%s", old, text)
	}
	return strings.ReplaceAll(text, old, by)
}

// programs is the directory to which a reader copies the program.
func (p *place) programs() string { return filepath.Join(p.host.Dir(), "programs") }

// workDir is the working directory for a document.
func (p *place) workDir(document string) string { return filepath.Join(p.host.Dir(), "work", document) }

// file is the path of a file in the working directory.
func (p *place) file(name string) string { return filepath.Join(p.dir, name) }

// enterPlace begins the script of a place: $1 is the working directory, $2 that of the program, $3 the block.
const enterPlace = `cd "$1" && export HOME="$1" PATH="$2:$PATH" && `

// command runs a block; the first command that fails ends it.
func (p *place) command(ctx context.Context, run, block string) *exec.Cmd {
	cmd := p.host.Command(ctx, "bash", "-euc", enterPlace+run, "place", p.dir, p.programs(), block)
	cmd.Env = append(cmd.Env, "KUBECACHEDIR="+filepath.Join(p.host.Dir(), "kubectl-cache"))
	cmd.Env = append(cmd.Env, p.env...)
	return cmd
}

// Ways to run a block: as a script, and typed at a terminal.
const (
	asScript   = `exec bash -euo pipefail -c "$3"`
	atTerminal = `export SHELL=/bin/bash BLOCK="$3" && exec script -qec 'bash -euo pipefail -c "$BLOCK"' /dev/null`
)

// run runs a block to its end and returns its output.
func (g *guide) run(at *place, block string) string {
	g.Helper()
	return g.finish(at.command(g.Context(), asScript, block), block)
}

// retried runs a block that works once something is there, as a reader repeats it.
func (g *guide) retried(at *place, block string) (out string) {
	g.Helper()
	eventually(g.T, usual, prompted(block), func() error {
		said, err := at.command(g.Context(), asScript, block).CombinedOutput()
		if out = string(said); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	g.Logf("%s\n%s", prompted(block), out)
	return out
}

// typed is run at a terminal, where a reader types something once a command asks for it.
func (g *guide) typed(at *place, block, input string) string {
	g.Helper()
	cmd := at.command(g.Context(), atTerminal, block)
	cmd.Stdin = strings.NewReader(input)
	return g.finish(cmd, block)
}

// finish waits for the end of a block, and of what it left running.
func (g *guide) finish(cmd *exec.Cmd, block string) string {
	g.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	g.Logf("%s\n%s", prompted(block), out.String())
	if err != nil {
		g.Fatalf("%v", err)
	}
	return out.String()
}

// start runs a block whose last command does not end.
func (g *guide) start(at *place, name, block string) *testbed.Process {
	g.Helper()
	g.Log(prompted(block))
	g.started[name]++
	name = fmt.Sprintf("%s-%d", name, g.started[name]) // each has a log of its own
	p, err := at.host.Run(name, at.command(context.WithoutCancel(g.Context()), asScript, block))
	must(g.T, err)
	g.Cleanup(func() {
		if g.Failed() {
			g.Logf("log of %s: %s\n%s", name, p.LogFile(), p.LogTail(10))
		}
		if err := p.Kill(); err != nil {
			g.Error(err)
		}
	})
	return p
}

// prompted shows a block as a terminal does.
func prompted(block string) string {
	return "$ " + strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n> ")
}

// startNode runs a block that starts tombolo node, and does what its log asks for.
func (g *guide) startNode(block string) {
	g.Helper()
	g.node.nodeProc = g.start(g.desk, "tombolo-node", block)
	g.approve()
}

// approval is what the log of tombolo node tells the reader to do.
var approval = regexp.MustCompile(`kubectl certificate approve tombolo-` + edgeName + `-client-\w+`)

// approve waits for the log of tombolo node to say what has to be approved, and does so.
func (g *guide) approve() {
	g.Helper()
	var command string
	eventually(g.T, usual, "a request that waits for approval", func() error {
		log, err := os.ReadFile(g.node.nodeProc.LogFile())
		if all := approval.FindAllString(string(log), -1); len(all) > 0 {
			command = all[len(all)-1]
			return err
		}
		return errNotYet
	})
	g.run(g.desk, command)
}

// carry copies files to a working directory, under their own names.
func (g *guide) carry(to *place, paths ...string) {
	g.Helper()
	for _, path := range paths {
		g.put(path, to.file(filepath.Base(path)))
	}
}

// put copies a file, readable and executable for whom it was.
func (g *guide) put(from, to string) {
	g.Helper()
	info, err := os.Stat(from)
	must(g.T, err)
	data, err := os.ReadFile(from)
	must(g.T, err)
	must(g.T, os.WriteFile(to, data, info.Mode().Perm()))
}
