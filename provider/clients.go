// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// The kubelet's rates for its requests to the API: the general ones and those for events.
const (
	apiQPS     = 50
	apiBurst   = 100
	eventQPS   = 50
	eventBurst = 100
)

// heartbeatTimeout is the kubelet's deadline for writes of the node's status and lease.
const heartbeatTimeout = 10 * time.Second

// clients reach the API as the node. They are apart so that a flood of one kind of request does not delay another.
type clients struct {
	// objects is for what pods refer to, which may be many watches that begin at once.
	objects kubernetes.Interface
	// general is for pods, their statuses, reviews of callers, and watches.
	general kubernetes.Interface
	// heartbeat is for the Node object and its lease. It is not throttled and its requests have a deadline.
	heartbeat kubernetes.Interface
	events    kubernetes.Interface
}

// newClients makes clients that say who they are.
func newClients(base *rest.Config, version string) (*clients, error) {
	var c clients
	for _, part := range []struct {
		name   string
		client *kubernetes.Interface
		set    func(*rest.Config)
	}{
		{"pods", &c.general, func(config *rest.Config) { config.QPS, config.Burst = apiQPS, apiBurst }},
		{"objects", &c.objects, func(config *rest.Config) { config.QPS, config.Burst = apiQPS, apiBurst }},
		{"heartbeat", &c.heartbeat, func(config *rest.Config) { config.QPS, config.Timeout = -1, heartbeatTimeout }},
		{"events", &c.events, func(config *rest.Config) { config.QPS, config.Burst = eventQPS, eventBurst }},
	} {
		config := rest.CopyConfig(base)
		config.UserAgent = userAgent(version, part.name)
		config.ContentType = runtime.ContentTypeProtobuf
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		part.set(config)
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("making a client of the Kubernetes API: %w", err)
		}
		*part.client = client
	}
	return &c, nil
}

// userAgent is how requests call themselves.
func userAgent(version, part string) string { return "tombolo-node/" + version + " " + part }
