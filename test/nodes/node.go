// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/test/testbed"
)

// Kind is what makes a node of a host.
type Kind string

// The kinds.
const (
	// Kubelet is the real one, on the host.
	Kubelet Kind = "kubelet"
	// TomboloTLS is tombolo host on the host and tombolo node on this side, with mutual TLS between them.
	TomboloTLS Kind = "tombolo-tls"
	// TomboloUnix is tombolo node alone, on the host, with the host part in-process.
	TomboloUnix Kind = "tombolo-unix"
)

const (
	readyTimeout = 90 * time.Second
	pollInterval = 100 * time.Millisecond
	maxPods      = "110" // the default of both, given to both
)

// A Node is a running node. Its name is that of its host.
type Node struct {
	Kind Kind
	Host *testbed.Host
	// Processes are those that make the node.
	Processes []*testbed.Process

	cluster *testbed.Cluster
}

// Start makes a node of a host and returns when it is Ready. It has no taint. binary is tombolo; the kubelet is taken from
// the parts.
func Start(ctx context.Context, cluster *testbed.Cluster, host *testbed.Host, kind Kind, binary string) (*Node, error) {
	n := &Node{Kind: kind, Host: host, cluster: cluster}
	var err error
	switch kind {
	case Kubelet:
		err = n.startKubelet(ctx)
	case TomboloTLS, TomboloUnix:
		err = n.startTombolo(ctx, binary)
	default:
		err = fmt.Errorf("kind %q is none of %s, %s, %s", kind, Kubelet, TomboloTLS, TomboloUnix)
	}
	if err == nil {
		err = n.awaitReady(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("starting node %s: %w", host.Name(), errors.Join(err, n.Stop(context.WithoutCancel(ctx))))
	}
	return n, nil
}

// Name is the name of the node and of its host.
func (n *Node) Name() string { return n.Host.Name() }

// Stop stops the processes of the node. Pods go on, the node object stays.
func (n *Node) Stop(ctx context.Context) error {
	var failed []error
	for _, p := range n.Processes {
		failed = append(failed, p.Stop(ctx))
	}
	return errors.Join(failed...)
}

// awaitReady waits until the node is Ready, but not longer than its processes live.
func (n *Node) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		ready, err := n.ready(ctx)
		if ready {
			return nil
		}
		for _, p := range n.Processes {
			select {
			case <-p.Done():
				return fmt.Errorf("%s ended: %w; log %s:\n%s", p.Name(), p.Err(), p.LogFile(), p.LogTail(10))
			default:
			}
		}
		select {
		case <-ctx.Done():
			last := n.Processes[len(n.Processes)-1]
			return fmt.Errorf("not Ready after %s (%w); log %s:\n%s", readyTimeout, err, last.LogFile(), last.LogTail(10))
		case <-time.After(pollInterval):
		}
	}
}

func (n *Node) ready(ctx context.Context) (bool, error) {
	node, err := n.cluster.Client().CoreV1().Nodes().Get(ctx, n.Name(), metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	// A new node carries a taint until a controller has seen it Ready.
	if len(node.Spec.Taints) > 0 {
		return false, fmt.Errorf("it has the taint %s", node.Spec.Taints[0].ToString())
	}
	for _, c := range node.Status.Conditions {
		if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
			return true, nil
		}
	}
	return false, errors.New("its condition Ready is not True")
}
