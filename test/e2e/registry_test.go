// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"io"
	"net"
	"os"
	"time"
)

const (
	// deafVariable makes the test binary a registry that accepts connections on the port it holds and never answers. The
	// runtime speaks plain HTTP to a registry on its own loopback, so the binary has to run on the host.
	deafVariable = "TOMBOLO_E2E_DEAF_REGISTRY"
	deafPort     = "5999"
)

// deafRegistry starts such a registry on the host of the test's site.
func (k *tester) deafRegistry() {
	k.Helper()
	self, err := os.Executable()
	must(k.T, err)
	cmd := k.host.Command(context.Background(), self)
	cmd.Env = append(cmd.Env, deafVariable+"="+deafPort)
	p, err := k.host.Run(k.namespace+"-deaf-registry", cmd)
	must(k.T, err)
	k.Cleanup(func() {
		if err := p.Kill(); err != nil {
			k.Error(err)
		}
	})
	eventually(k.T, usual, "the deaf registry listens", func() error {
		_, err := k.host.Exec(k.Context(), "sh", "-c", "grep -qi ':176F ' /proc/self/net/tcp") // 5999
		return err
	})
}

// listenDeafly is the registry. It ends with the process.
func listenDeafly(port string) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		go func() { _, _ = io.Copy(io.Discard, c) }()
	}
}
