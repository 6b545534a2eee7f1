// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"sync"

	"k8s.io/client-go/tools/clientcmd"
)

// gate is a node's way to the API server, which can be closed without anybody else losing theirs.
type gate struct {
	listener net.Listener
	server   string
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
}

// gateAPI makes a gate, open until the test ends, and returns it with a kubeconfig of the site's node that goes through it.
func (k *tester) gateAPI() (g *gate, kubeconfig string) {
	k.Helper()
	file, err := k.env.cluster.NodeKubeconfig(k.name)
	must(k.T, err)
	config, err := clientcmd.LoadFromFile(file)
	must(k.T, err)
	server, err := url.Parse(k.env.cluster.Server())
	must(k.T, err)
	listener, err := net.Listen("tcp", net.JoinHostPort(k.env.cluster.Address().String(), "0"))
	must(k.T, err)
	g = &gate{listener: listener, server: server.Host, conns: map[net.Conn]bool{}}
	g.wg.Go(g.run)
	k.Cleanup(g.end)
	for _, c := range config.Clusters { // the certificate is for the address, whatever the port
		c.Server = "https://" + listener.Addr().String()
	}
	kubeconfig = filepath.Join(k.TempDir(), "kubeconfig.yaml")
	must(k.T, clientcmd.WriteToFile(*config, kubeconfig))
	return g, kubeconfig
}

func (g *gate) run() {
	for {
		in, err := g.listener.Accept()
		if err != nil {
			return // the end
		}
		out, err := net.Dial("tcp", g.server)
		if err != nil || !g.enter(in, out) {
			_ = in.Close()
			if err == nil {
				_ = out.Close()
			}
			continue
		}
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			g.wg.Go(func() {
				_, _ = io.Copy(way[0], way[1])
				g.leave(in, out)
			})
		}
	}
}

func (g *gate) enter(conns ...net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		g.conns[c] = true
	}
	return !g.closed
}

func (g *gate) leave(conns ...net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(g.conns, c)
	}
}

// set closes or opens the gate. Nothing gets through a closed one, and what went through it breaks.
func (g *gate) set(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = closed
	if closed {
		for c := range g.conns {
			_ = c.Close()
		}
	}
}

func (g *gate) end() {
	_ = g.listener.Close()
	g.set(true)
	g.wg.Wait()
}
