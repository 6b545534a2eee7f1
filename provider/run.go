// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle"
	"github.com/tombolo-dev/tombolo/lifecycle/podsync"
	"github.com/tombolo-dev/tombolo/provider/events"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
	"github.com/tombolo-dev/tombolo/provider/kubeletapi"
	"github.com/tombolo-dev/tombolo/provider/machine"
	"github.com/tombolo-dev/tombolo/provider/nodestatus"
	"github.com/tombolo-dev/tombolo/provider/objects"
	"github.com/tombolo-dev/tombolo/provider/podsource"
	"github.com/tombolo-dev/tombolo/provider/staticpods"
	"github.com/tombolo-dev/tombolo/provider/statussink"
)

// closeTimeout is how long the way to the host may take to close. With the host part in this process, hooks that run
// get that long.
const closeTimeout = 5 * time.Second

// Run makes a machine a node and keeps it one until ctx ends; that is no error. It waits for the API server and for the
// host as long as it takes. What runs on the host is left alone when it returns. An error says that the options cannot
// work, such as a port in use or a certificate that cannot be read, or that the kubelet API broke.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.complete(); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fmt.Errorf("listening for the kubelet API on %s: %w", o.Listen, err)
	}
	defer listener.Close()
	conn, err := hostconn.Connect(o.Host)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, conn.Close(closing))
	}()
	certificates, err := o.obtainIdentity(ctx)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	defer certificates.stop()
	clients, err := newClients(o.Kubernetes, o.Version)
	if err != nil {
		return err
	}
	if err := o.discover(ctx, clients); err != nil {
		return ignoreEnd(ctx, err)
	}
	if err := certificates.prepare(&o, clients); err != nil {
		return err
	}
	n, err := o.assemble(ctx, clients, conn, listener)
	if err != nil {
		return err
	}
	defer n.recorder.Stop()
	n.certificates = certificates
	certificates.reportTo(n.status.Event)
	o.Health.assembled(n)
	return ignoreEnd(ctx, n.run(ctx))
}

// ignoreEnd takes the end of ctx for what it is: a request to stop.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// discover fills in what the user left to be found.
func (o *Options) discover(ctx context.Context, clients *clients) error {
	if !o.NodeIP.IsValid() {
		err := until(ctx, o.Clock, o.Logger, "a route to the API server, which gives the node's address (or set --node-ip)", func(ctx context.Context) error {
			ip, err := routeTo(ctx, o.Kubernetes)
			o.NodeIP = ip
			return err
		})
		if err != nil {
			return err
		}
	}
	if o.ClusterID == "" {
		return until(ctx, o.Clock, o.Logger, "the API server, which gives the cluster's id (or set --cluster-id)", func(ctx context.Context) error {
			id, err := clusterID(ctx, clients.general)
			o.ClusterID = id
			return err
		})
	}
	return nil
}

// assembly is the parts of one node, introduced to each other.
type assembly struct {
	monitor  *machine.Monitor
	objects  *objects.Objects
	engine   *lifecycle.Engine
	status   *nodestatus.Controller
	api      *kubeletapi.Server
	recorder *events.Recorder

	certificates *certificates
}

// assemble makes the parts and introduces them to each other.
func (o *Options) assemble(ctx context.Context, clients *clients, conn *hostconn.Connection, listener net.Listener) (*assembly, error) {
	n := &assembly{}
	identity := cri.Identity{Cluster: o.ClusterID, Node: o.Name}
	conn.Introduce(fmt.Sprintf("node %s of cluster %s", identity.Node, identity.Cluster))
	runtime := cri.NewClient(conn.CRI, cri.ClientOptions{Identity: identity, Observer: cri.NewMetrics(o.Registry), Clock: o.Clock})
	n.monitor = machine.New(machine.Options{
		Target: conn.Target, Link: func() (time.Time, error) { state := conn.State(); return state.Since, state.Err },
		Facts: conn.Host, Runtime: runtime, Clock: o.Clock, Logger: o.Logger.With("part", "machine"), Registerer: o.Registry,
	})
	n.recorder = events.Start(ctx, clients.events.CoreV1(), o.Name, o.Logger.With("part", "events"))
	n.status = nodestatus.New(nodestatus.Options{
		Config: nodestatus.Config{
			Name: o.Name, Labels: o.Labels, Taints: o.Taints, NodeIP: o.NodeIP, Port: port(listener), MaxPods: o.MaxPods,
			ClusterDomain: o.ClusterDomain, KubeletVersion: nodestatus.KubeletVersion(o.Version),
		},
		Machine: n.monitor, Engine: func() error { return n.engine.Healthy() },
		Client: clients.heartbeat, Watches: clients.general, Recorder: n.recorder, Clock: o.Clock, Logger: o.Logger.With("part", "node"),
	})
	n.objects = objects.New(objects.Options{
		Client: clients.objects, Node: o.Name, Changed: func(pods []types.UID) { n.engine.Refresh(pods) },
		Event: func(pod *v1.Pod, reason, message string) { n.recorder.Event(pod, v1.EventTypeWarning, reason, message) },
		Clock: o.Clock, Logger: o.Logger.With("part", "objects"), Registerer: o.Registry,
	})
	sources := o.podSources(n, clients)
	provider := New(sources)
	var profiles podsync.Profiles
	if o.SeccompProfileDir != "" {
		profiles = profileDir(o.SeccompProfileDir)
	}
	var err error
	n.engine, err = lifecycle.New(lifecycle.Options{
		Source: provider, Runtime: runtime, Host: conn.Host, Machine: n.monitor, Objects: n.objects,
		Sink:     &staticpods.Sink{Base: statussink.New(clients.general, o.Name), Mux: sources},
		Recorder: n.recorder, Identity: identity, ClusterDNS: o.ClusterDNS, ClusterDomain: o.ClusterDomain, MaxPods: o.MaxPods,
		MaxParallelStarts: o.MaxParallelStarts, MaxParallelPulls: cmp.Or(o.MaxParallelPulls, DefaultParallelPulls), Profiles: profiles, NoPodCgroups: o.NoPodCgroups, UnsafeSysctls: o.UnsafeSysctls,
		MaxPIDs: o.MaxPIDs, LimitedSwap: o.LimitedSwap,
		RuntimeClasses: newRuntimeClasses(clients.general.NodeV1()), Node: n.status.Node, Clock: o.Clock, Logger: o.Logger, Registerer: o.Registry,
	})
	if err != nil {
		n.recorder.Stop()
		return nil, err
	}
	provider.SetView(n.engine)
	if n.api, err = o.kubeletAPI(n, clients, conn, runtime, listener); err != nil {
		n.recorder.Stop()
		return nil, err
	}
	return n, nil
}

// podSources merges the pods of the API with the static ones.
func (o *Options) podSources(n *assembly, clients *clients) *staticpods.Mux {
	return staticpods.New(staticpods.Options{
		API: podsource.New(podsource.Options{
			Client: clients.general, Node: o.Name, Clock: o.Clock, Logger: o.Logger.With("part", "pods"),
		}),
		Dir: o.StaticPods.Dir, URL: o.StaticPods.URL, Header: o.StaticPods.Header,
		NodeName: o.Name, Node: n.status.Node, MayRun: func(uid types.UID) bool { return n.engine.MayRun(uid) },
		Client: clients.general, Recorder: n.recorder, Clock: o.Clock, Logger: o.Logger.With("part", "static-pods"),
	})
}

func (o *Options) kubeletAPI(n *assembly, clients *clients, conn *hostconn.Connection, runtime *cri.Client, listener net.Listener) (*kubeletapi.Server, error) {
	tls := o.TLS
	tls.Addresses = append([]string{o.NodeIP.String()}, tls.Addresses...)
	return kubeletapi.New(kubeletapi.Options{
		NodeName: o.Name, Listener: listener, TLS: tls, Reviews: clients.general,
		Pods: n.engine, Runtime: runtime, Logs: conn.Host, Streams: conn.Host,
		PodLogsDir: n.podLogsDir, HostTime: n.monitor.HostTime, LinkDown: n.monitor.LinkDown,
		SyncLoop: func(*http.Request) error { return n.engine.Healthy() },
		Gatherer: o.Registry, Clock: o.Clock, Logger: o.Logger.With("part", "kubelet-api"), Registerer: o.Registry,
	})
}

// podLogsDir is where the host keeps pods' logs, "" while the host has not said so.
func (n *assembly) podLogsDir() string {
	if facts := n.monitor.Facts(); facts != nil {
		return facts.PodLogsDir
	}
	return ""
}

// run runs all parts until ctx ends or one of them fails, and joins them.
func (n *assembly) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { n.monitor.Run(ctx); return nil })
	group.Go(func() error { n.status.Run(ctx); return nil })
	group.Go(func() error { n.objects.Run(ctx); return nil })
	group.Go(func() error { return n.engine.Run(ctx) })
	group.Go(func() error { return n.api.Run(ctx) })
	group.Go(func() error { return n.certificates.run(ctx) })
	return group.Wait()
}

// port is the port that a listener listens on.
func port(listener net.Listener) int32 {
	if addr, ok := listener.Addr().(*net.TCPAddr); ok {
		return int32(addr.AddrPort().Port())
	}
	return 0
}
