// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package termination

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func TestHooksOfEveryKind(t *testing.T) {
	get := &v1.HTTPGetAction{Port: intstr.FromString("admin"), Path: "/drain", Scheme: v1.URISchemeHTTPS}
	killing := "Killing default/shop spec.containers{main}: Stopping container main"
	failed := "FailedPreStopHook default/shop spec.containers{main}: PreStopHook failed"
	for _, tc := range []struct {
		name    string
		handler v1.LifecycleHandler
		plan    hookPlan
		request *host.HookRequest // without identity
		signals []string
		events  []string
	}{
		{
			name: "httpGet to a named port of the pod", handler: v1.LifecycleHandler{HTTPGet: get},
			plan: hookPlan{takes: 3 * time.Second},
			request: &host.HookRequest{Timeout: 10 * time.Second, HTTPGet: &host.HTTPRequest{
				Scheme: "https", Host: "10.0.0.7", Port: 8443, Path: "/drain",
				Headers: []host.Header{{Name: "User-Agent", Value: "kube-lifecycle/1.37"}, {Name: "Accept", Value: "*/*"}},
			}},
			signals: []string{"TERM@3s"}, events: []string{killing},
		},
		{
			name: "httpGet that fell back to plain HTTP", plan: hookPlan{fallback: true},
			handler: v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Host: "192.0.2.9", Port: intstr.FromInt32(1), Scheme: "HTTPS"}},
			signals: []string{"TERM@0s"}, events: []string{killing, "LifecycleHTTPFallback default/shop spec.containers{main}: " +
				"request to HTTPS lifecycle hook 192.0.2.9 got HTTP response, retry with HTTP succeeded"},
		},
		{
			name:    "httpGet to a port that has no such name",
			handler: v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromString("nope")}},
			signals: []string{"TERM@0s"}, events: []string{killing, failed},
		},
		{
			name: "sleep", handler: v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 4}},
			plan:    hookPlan{takes: 4 * time.Second},
			request: &host.HookRequest{Timeout: 10 * time.Second, Sleep: new(4 * time.Second)},
			signals: []string{"TERM@4s"}, events: []string{killing},
		},
		{
			name: "sleep for longer than the budget", handler: v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 60}},
			plan:    hookPlan{takes: time.Minute},
			signals: []string{"TERM@10s"}, events: []string{killing},
		},
		{
			name: "tcpSocket cannot be run", handler: v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: intstr.FromInt32(1)}},
			signals: []string{"TERM@0s"}, events: []string{killing, failed},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, 10, nil, "main")
				c := &b.pod.Spec.Containers[0]
				c.Ports = []v1.ContainerPort{{Name: "admin", ContainerPort: 8443}}
				c.Lifecycle = &v1.Lifecycle{PreStop: &tc.handler}
				id := b.seeded.Containers["main"]
				b.hooks.plan[id] = tc.plan
				start := time.Now()
				mustStop(t, b, start.Add(10*time.Second))
				if tc.request != nil {
					want := *tc.request
					want.PodUID, want.ContainerID, want.Kind = podUID, id, host.HookPreStop
					if diff := cmp.Diff(want, b.hooks.run(id).request); diff != "" {
						t.Errorf("request (-want +got):\n%s", diff)
					}
				}
				b.wantSignals(t, start, map[string][]string{"main": tc.signals})
				wantEvents(t, b, tc.events...)
			})
		})
	}
}

func TestHookOfASingleContainerGoesToThePod(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, 10, nil, "main")
		handler := &v1.LifecycleHandler{HTTPGet: &v1.HTTPGetAction{Port: intstr.FromInt32(80)}}
		b.pod.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: handler}
		kill := ContainerKill{Pod: b.pod, Container: b.observe().Newest("main"), Message: "unwell", PodIP: "10.0.0.9"}
		if err := b.term.KillContainer(t.Context(), kill); err != nil {
			t.Fatal(err)
		}
		if got := b.hooks.run(b.seeded.Containers["main"]).request.HTTPGet.Host; got != "10.0.0.9" {
			t.Errorf("the hook went to %q", got)
		}
	})
}
