// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"log/slog"
	"net/http"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/lifecycle/podsync"
	"github.com/tombolo-dev/tombolo/provider/hostconn"
	"github.com/tombolo-dev/tombolo/provider/kubeletapi"
)

// StaticPods are a directory of manifests and a URL of one, which is read with Header. Each may be empty.
type StaticPods struct {
	Dir    string
	URL    string
	Header http.Header
}

// DefaultParallelStarts is the default of Options.MaxParallelStarts.
const DefaultParallelStarts = podsync.DefaultParallelStarts

// DefaultParallelPulls is the default of Options.MaxParallelPulls: enough that a few registries that do not answer hold up no
// others, and few enough that a slow line is not shared by a burst's whole set of images.
const DefaultParallelPulls = 10

// Options are what one node is made of.
type Options struct {
	// Name is the node's name. Labels and Taints are those it is registered with besides the usual labels.
	Name   string
	Labels map[string]string
	Taints []v1.Taint
	// MaxPods is the most pods the node takes.
	MaxPods int
	// MaxParallelStarts is how many new pods may be started at once; zero is DefaultParallelStarts.
	MaxParallelStarts int
	// MaxParallelPulls is how many images may be pulled at once; zero is DefaultParallelPulls.
	MaxParallelPulls int
	// SeccompProfileDir is a directory with seccomp profiles that are brought to the host for the pods that name them; "" if there is none.
	SeccompProfileDir string
	// NoPodCgroups leaves the control groups of pods to the container runtime.
	NoPodCgroups bool

	// Kubernetes says how the API is reached. The identity should be system:node:<Name> in the group system:nodes.
	Kubernetes *rest.Config
	// Bootstrap says that the identity in Kubernetes is only good for asking for a client certificate of the node, which is
	// used for everything else and renewed in time.
	Bootstrap bool
	// IssuedServing asks the cluster for a serving certificate of the kubelet API too, which somebody has to approve.
	IssuedServing bool
	// CertDir is where certificates that were asked for are kept over restarts; "" is nowhere.
	CertDir string
	// ClientCAFromCluster lets the kubelet API accept the client certificates that the API server accepts, by the authorities
	// that it publishes.
	ClientCAFromCluster bool
	// ClusterID marks whose CRI objects are on the host. Empty: the UID of the Service default/kubernetes.
	ClusterID string
	// ClusterDNS and ClusterDomain are the kubelet's settings of these names.
	ClusterDNS    []string
	ClusterDomain string

	// MaxPIDs is how many processes and threads a pod may have; zero is no limit.
	MaxPIDs int64
	// LimitedSwap gives burstable containers a share of the host's swap. Without it no container may use any.
	LimitedSwap bool
	// UnsafeSysctls are sysctls that pods may set besides the safe ones: names, or beginnings of names and an asterisk.
	UnsafeSysctls []string

	// Host says where the host is. Its Clock, Logger, Version and Registerer are filled in.
	Host hostconn.Options

	// StaticPods says where manifests of pods are that do not come from the API.
	StaticPods StaticPods

	// Listen is the address:port of the kubelet API. NodeIP is where the API server reaches it; invalid: the address from
	// which the API server is reached.
	Listen string
	NodeIP netip.Addr
	TLS    kubeletapi.TLSOptions

	// Version is the version of this program.
	Version string
	Clock   clock.WithTickerAndDelayedExecution
	// Logger may be nil.
	Logger *slog.Logger
	// Health is told how far the node is. It may be nil.
	Health *Health
	// Registry takes the metrics of all parts and is served by the kubelet API.
	Registry *prometheus.Registry
}

func (o *Options) complete() error {
	if o.Name == "" || o.Kubernetes == nil || o.Clock == nil || o.Registry == nil {
		return errors.New("provider options: Name, Kubernetes, Clock and Registry are required")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Health == nil {
		o.Health = &Health{}
	}
	o.Host.Clock, o.Host.Logger, o.Host.Version = o.Clock, o.Logger.With("part", "host"), o.Version
	o.Host.Registerer = o.Registry
	return nil
}
