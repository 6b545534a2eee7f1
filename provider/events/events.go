// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// component is the source that kubelets give their events.
const component = "kubelet"

// Recorder records events of one node until it is stopped.
type Recorder struct {
	record.EventRecorder
	broadcaster record.EventBroadcaster
}

// Start makes a recorder that writes through client. Each event is also logged for debugging. The caller stops it.
func Start(ctx context.Context, client corev1client.EventsGetter, node string, logger *slog.Logger) *Recorder {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartEventWatcher(func(e *v1.Event) {
		logger.Debug("Event", "kind", e.InvolvedObject.Kind, "namespace", e.InvolvedObject.Namespace,
			"name", e.InvolvedObject.Name, "type", e.Type, "reason", e.Reason, "message", e.Message)
	})
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: client.Events(metav1.NamespaceAll)})
	return &Recorder{
		EventRecorder: broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: component, Host: node}),
		broadcaster:   broadcaster,
	}
}

// Stop ends the recorder. Events recorded from now on are dropped.
func (r *Recorder) Stop() { r.broadcaster.Shutdown() }
