// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package podsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/lifecycle/volume"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

func TestPodStartsInitContainersOneByOneAndThenTheRest(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "one,two|web,side")
		if r := b.mustSync(t); !r.Acted {
			t.Error("a sync that started something did not say so")
		}
		b.wantRecords(t, "one/0 running")
		if r := b.mustSync(t); r.Acted {
			t.Error("a sync that had to wait says that it acted")
		}
		b.exit(t, "one", 0)
		b.mustSync(t)
		b.wantRecords(t, "one/0 exited", "two/0 running")
		b.exit(t, "two", 0)
		b.mustSync(t)
		b.wantRecords(t, "one/0 exited", "two/0 exited", "web/0 running", "side/0 running")
		if r := b.mustSync(t); r.Acted {
			t.Error("a sync of a pod that runs says that it acted")
		}
		b.wantEvents(t,
			"Created spec.initContainers{one}: Container created", "Started spec.initContainers{one}: Container started",
			"Created spec.initContainers{two}: Container created", "Started spec.initContainers{two}: Container started",
			"Created spec.containers{web}: Container created", "Started spec.containers{web}: Container started",
			"Created spec.containers{side}: Container created", "Started spec.containers{side}: Container started")
		if n := len(rt.Calls("RunPodSandbox")); n != 1 {
			t.Errorf("RunPodSandbox was called %d times", n)
		}
	})
}

func TestConfigurationsCarryWhatTheNodeKnows(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "1"}}
		b.pod.Spec.Containers[0].Args = []string{"$(A)"}
		b.mustSync(t)
		box := rt.Sandboxes(b.pod.UID)[0].Config
		if got := box.GetLogDirectory(); got != "/var/log/pods/default_shop_uid-1" {
			t.Errorf("log directory %q", got)
		}
		if diff := cmp.Diff([]string{"10.96.0.10"}, box.GetDnsConfig().GetServers()); diff != "" {
			t.Errorf("DNS servers (-want +got):\n%s", diff)
		}
		if box.GetHostname() != "shop" || box.GetLabels()[cri.LabelNode] != fakecri.DefaultIdentity.Node {
			t.Errorf("hostname %q, labels %v", box.GetHostname(), box.GetLabels())
		}
		c := b.newest(t, "web").Config
		if len(c.GetArgs()) != 1 || c.GetArgs()[0] != "1" || len(c.GetEnvs()) != 1 || len(c.GetMounts()) != 2 {
			t.Errorf("args %v, envs %v, mounts %v", c.GetArgs(), c.GetEnvs(), c.GetMounts())
		}
		if c.GetLogPath() != "web/0.log" || c.GetImage().GetUserSpecifiedImage() != "registry.test/web:1" {
			t.Errorf("log path %q, image %v", c.GetLogPath(), c.GetImage())
		}
	})
}

// TestUserOfTheImageIsNamedUnlessThePodHasOne, so that the image's group is not the container's.
func TestUserOfTheImageIsNamedUnlessThePodHasOne(t *testing.T) {
	for name, tt := range map[string]struct {
		pod, own *int64
		want     int64
		asked    bool
	}{
		"the image's":     {nil, nil, 0, true},
		"the pod's":       {new(int64(7)), nil, 7, false},
		"the container's": {nil, new(int64(8)), 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyAlways, "web")
				b.pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: tt.pod}
				b.pod.Spec.Containers[0].SecurityContext = &v1.SecurityContext{RunAsUser: tt.own}
				before := len(rt.Calls("ImageStatus"))
				b.mustSync(t)
				user := b.newest(t, "web").Config.GetLinux().GetSecurityContext().GetRunAsUser()
				if user == nil || user.GetValue() != tt.want {
					t.Errorf("user %v, want %d", user, tt.want)
				}
				if asked := len(rt.Calls("ImageStatus")) > before; asked != tt.asked {
					t.Errorf("the runtime was asked for the image's user: %v, want %v", asked, tt.asked)
				}
			})
		})
	}
}

func TestCrashLoopWaitsAndSaysUntilWhen(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web,side")
		b.mustSync(t)
		b.exit(t, "web", 1)
		b.mustSync(t) // the first restart is immediate
		b.wantRecords(t, "web/0 exited", "side/0 running", "web/1 running")
		b.exit(t, "web", 1)
		ended := time.Now()
		b.events.take()
		r := b.sync(t)
		if r.Err == nil || !r.BackoffUntil.Equal(ended.Add(10*time.Second)) {
			t.Errorf("result %+v, want a back-off until 10s after the end", r)
		}
		b.wantEvents(t, "BackOff spec.containers{web}: Back-off restarting failed container web in pod shop_default(uid-1)")
		b.wantWaiting(t, "web", "CrashLoopBackOff", "back-off 10s restarting failed container=web pod=shop_default(uid-1)")
		time.Sleep(10 * time.Second)
		b.mustSync(t)
		b.wantWaiting(t, "web", "", "")
		b.wantRecords(t, "web/0 exited", "side/0 running", "web/1 exited", "web/2 running")
	})
}

func TestCrashLoopDoesNotMindTheHostsClock(t *testing.T) {
	for _, skew := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(fakecri.Start(t, fakecri.Options{Skew: skew}), v1.RestartPolicyAlways, "web")
				b.mustSync(t)
				b.exit(t, "web", 1)
				b.mustSync(t)
				time.Sleep(3 * time.Second)
				b.exit(t, "web", 1)
				ended := time.Now()
				time.Sleep(time.Second)
				if r := b.sync(t); !r.BackoffUntil.Equal(ended.Add(10 * time.Second)) {
					t.Errorf("back-off until %s, want 10s after the end at %s", r.BackoffUntil, ended)
				}
			})
		})
	}
}

func TestEarliestBackoffCounts(t *testing.T) {
	for _, order := range [][]string{{"web", "side"}, {"side", "web"}} {
		t.Run(order[0]+" ended first", func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyAlways, "web,side")
				b.mustSync(t)
				b.exit(t, "web", 1)
				b.exit(t, "side", 1)
				b.mustSync(t)
				b.exit(t, order[0], 1)
				first := time.Now()
				time.Sleep(3 * time.Second)
				b.exit(t, order[1], 1)
				if r := b.sync(t); !r.BackoffUntil.Equal(first.Add(10 * time.Second)) {
					t.Errorf("back-off until %s, want %s", r.BackoffUntil, first.Add(10*time.Second))
				}
			})
		})
	}
}

func TestImageErrorsBecomeWaitingReasons(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.images.err = fmt.Errorf("ensuring: %w", &imageError{"ErrImagePull", "no such image"})
		r := b.sync(t)
		if r.Err == nil || !r.BackoffUntil.IsZero() {
			t.Errorf("result %+v", r)
		}
		b.wantWaiting(t, "web", "ErrImagePull", "ensuring: no such image")
		b.wantEvents(t, "Failed spec.containers{web}: Error: ErrImagePull")
		b.images.err = nil
		b.mustSync(t)
		b.wantWaiting(t, "web", "", "")
	})
}

func TestOneContainerThatCannotStartDoesNotStopTheOthers(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web,side")
		rt.Inject(fakecri.Fault{Method: "CreateContainer", Selector: fakecri.Selector{Container: "web"}, Err: errors.New("no device")})
		if r := b.sync(t); r.Err == nil {
			t.Error("no error")
		}
		b.wantRecords(t, "side/0 running")
		b.wantWaiting(t, "web", "CreateContainerError", "no device")
	})
}

func TestInitContainerThatCannotStartEndsTheSync(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "one|web")
		rt.Inject(fakecri.Fault{Method: "CreateContainer", Err: errors.New("no device"), Times: 1})
		b.sync(t)
		b.wantRecords(t)
		b.wantWaiting(t, "one", "CreateContainerError", "no device")
		b.mustSync(t)
		b.wantRecords(t, "one/0 running")
	})
}

func TestFailuresOfAStart(t *testing.T) {
	const web = " spec.containers{web}: "
	for _, tc := range []struct {
		name     string
		breakIt  func(b *bench)
		reason   string
		message  string
		events   []string
		recorded []string
	}{
		{
			name:   "environment",
			reason: "CreateContainerConfigError",
			breakIt: func(b *bench) {
				b.syncer.opts.HostIPs = nil
				b.pod.Spec.Containers[0].Env = []v1.EnvVar{{Name: "IP", ValueFrom: &v1.EnvVarSource{
					FieldRef: &v1.ObjectFieldSelector{FieldPath: "status.hostIP"},
				}}}
			},
			message: "the addresses of the node are not known yet",
			events:  []string{"Failed" + web + "Error: the addresses of the node are not known yet"},
		},
		{
			name:   "an object that the API does not give",
			reason: "CreateContainerConfigError",
			breakIt: func(b *bench) {
				b.objects.err = fmt.Errorf("failed to sync secret cache: the API is away: %w", errdefs.ErrUnavailable)
				b.pod.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{SecretRef: &v1.SecretEnvSource{}}}
			},
			message: "failed to sync secret cache: the API is away: unavailable",
			events:  []string{"Failed" + web + "Error: failed to sync secret cache: the API is away: unavailable"},
		},
		{
			name:    "mounts",
			reason:  "CreateContainerConfigError",
			breakIt: func(b *bench) { b.volumes.mounts = errors.New("no such volume") },
			message: "no such volume", events: []string{"Failed" + web + "Error: no such volume"},
		},
		{
			name:    "log files",
			reason:  "CreateContainerConfigError",
			breakIt: func(b *bench) { b.logs.err = errors.New("I/O error") },
			message: `looking for log files of container "web": I/O error`,
			events:  []string{"Failed" + web + `Error: looking for log files of container "web": I/O error`},
		},
		{
			name:   "root by policy",
			reason: "CreateContainerConfigError",
			breakIt: func(b *bench) {
				b.pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsNonRoot: new(true)}
			},
			message: `container has runAsNonRoot and image will run as root (pod: "shop_default(uid-1)", container: web)`,
			events: []string{"Failed" + web +
				`Error: container has runAsNonRoot and image will run as root (pod: "shop_default(uid-1)", container: web)`},
		},
		{
			name:   "creation",
			reason: "CreateContainerError",
			breakIt: func(b *bench) {
				b.rt.Inject(fakecri.Fault{Method: "CreateContainer", Err: errors.New("no device")})
			},
			message: "no device", events: []string{"Failed" + web + "Error: no device"},
		},
		{
			name:   "start",
			reason: "RunContainerError",
			breakIt: func(b *bench) {
				b.rt.Behave(fakecri.Selector{}, fakecri.Behaviour{StartError: `exec: "nope": executable file not found in $PATH`})
			},
			message: `exec: "nope": executable file not found in $PATH`,
			events: []string{
				"Created" + web + "Container created",
				"Failed" + web + `Error: exec: "nope": executable file not found in $PATH`,
			},
			recorded: []string{"web/0 exited"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyAlways, "web")
				tc.breakIt(b)
				if r := b.sync(t); r.Err == nil {
					t.Error("no error")
				}
				b.wantWaiting(t, "web", tc.reason, tc.message)
				b.wantEvents(t, tc.events...)
				b.wantRecords(t, tc.recorded...)
			})
		})
	}
}

func TestMessagesNameTheContainerInsteadOfItsID(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.mustSync(t)
		next := b.newest(t, "web").ID
		next = next[:len(next)-1] + string(next[len(next)-1]+1)
		b.exit(t, "web", 1)
		rt.Behave(fakecri.Selector{}, fakecri.Behaviour{StartError: "cannot start " + next})
		b.sync(t)
		b.wantWaiting(t, "web", "RunContainerError", "cannot start web")
	})
}

func TestSandboxThatCannotBeMadeIsToldAndTriedAgain(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyNever, "web")
		rt.Inject(fakecri.Fault{Method: "RunPodSandbox", Err: errors.New("cni plugin not initialized"), Times: 1})
		if r := b.sync(t); r.Err == nil {
			t.Error("no error")
		}
		b.wantEvents(t, "FailedCreatePodSandBox: Failed to create pod sandbox: cni plugin not initialized")
		b.wantWaiting(t, "web", "", "")
		b.mustSync(t)
		b.wantRecords(t, "web/0 running")
	})
}

func TestRunOncePodWhoseFirstSandboxDiedBeforeItRanTriesAgain(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyNever, "web")
		b.images.err = &imageError{"ErrImagePull", "no such image"}
		b.sync(t)
		rt.KillSandbox(rt.Sandboxes(b.pod.UID)[0].ID)
		b.images.err = nil
		b.events.take()
		b.mustSync(t)
		b.wantRecords(t, "web/0 running")
		if n := len(rt.Sandboxes(b.pod.UID)); n != 2 {
			t.Errorf("%d sandboxes, want a second one", n)
		}
		b.wantEvents(t, "SandboxChanged: Pod sandbox changed, it will be killed and re-created.",
			"Created spec.containers{web}: Container created", "Started spec.containers{web}: Container started")
	})
}

func TestFinishedPodGetsNoSecondSandbox(t *testing.T) {
	for _, policy := range []v1.RestartPolicy{v1.RestartPolicyOnFailure, v1.RestartPolicyNever} {
		t.Run(string(policy), func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, policy, "web")
				b.mustSync(t)
				b.exit(t, "web", 0)
				if r := b.mustSync(t); !r.Acted {
					t.Error("stopping the sandbox is something done")
				}
				for range 3 {
					if r := b.mustSync(t); r.Acted {
						t.Error("nothing was left to do and something was done")
					}
				}
				if boxes := rt.Sandboxes(b.pod.UID); len(boxes) != 1 || boxes[0].Ready {
					t.Errorf("sandboxes %+v, want one, stopped", boxes)
				}
				b.wantRecords(t, "web/0 exited")
			})
		})
	}
}

func TestSandboxThatDiesAtOnceIsToldOf(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		rt.Inject(fakecri.Fault{Method: "PodSandboxStatus", Err: errors.New("broken"), Times: 1})
		if r := b.sync(t); r.Err == nil || !r.Acted {
			t.Errorf("result %+v", r)
		}
		b.wantEvents(t, "FailedPodSandBoxStatus: Unable to get pod sandbox status: broken")
		b.mustSync(t)
		b.wantRecords(t, "web/0 running")
	})
}

func TestNewSandboxRunsInitContainersAgainWithoutDelay(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "one|web")
		for n := range 4 {
			b.mustSync(t)
			if got := b.newest(t, "one"); !got.Alive || got.Attempt != uint32(n) {
				t.Fatalf("in sandbox %d the init container is %+v", n, got)
			}
			b.exit(t, "one", 0)
			boxes := rt.Sandboxes(b.pod.UID)
			rt.KillSandbox(boxes[len(boxes)-1].ID)
		}
	})
}

func TestOldRecordsOfInitContainersAreRemovedWithTheirLogs(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "one|web")
		for range 3 {
			b.sync(t)
			b.exit(t, "one", 1)
			time.Sleep(time.Minute)
		}
		b.mustSync(t)
		b.wantRecords(t, "one/2 exited", "one/3 running")
		dir := "/var/log/pods/default_shop_uid-1/one/"
		if diff := cmp.Diff([]string{dir + "0.log", dir + "1.log"}, b.logs.removed); diff != "" {
			t.Errorf("removed logs (-want +got):\n%s", diff)
		}
	})
}

func TestRemovalOfOldRecordsIsNotInTheWay(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "one|web")
		rt.Inject(fakecri.Fault{Method: "RemoveContainer", Err: errors.New("busy")})
		for range 3 {
			b.sync(t)
			b.exit(t, "one", 1)
			time.Sleep(time.Minute)
		}
		b.mustSync(t)
		if got := b.newest(t, "one"); !got.Alive {
			t.Error("the init container does not run")
		}
	})
}

func TestInitContainersDoNotRunAgainWhenTheirRecordsVanish(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "one|web")
		b.mustSync(t)
		b.exit(t, "one", 0)
		b.mustSync(t)
		if err := rt.Client().RemoveContainer(t.Context(), b.newest(t, "one").ID); err != nil {
			t.Fatal(err)
		}
		b.mustSync(t)
		b.wantRecords(t, "web/0 running")
		b.exit(t, "web", 1)
		b.mustSync(t)
		b.wantRecords(t, "web/0 exited", "web/1 running")
	})
}

func TestChangedDefinitionRestartsTheContainerAtOnce(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyNever, "web,side")
		b.mustSync(t)
		b.events.take()
		b.pod.Spec.Containers[0].Image = "registry.test/web:2"
		b.mustSync(t)
		b.wantRecords(t, "web/0 exited", "side/0 running", "web/1 running")
		if got := b.newest(t, "web").Config.GetImage().GetUserSpecifiedImage(); got != "registry.test/web:2" {
			t.Errorf("the new container has image %q", got)
		}
		b.wantEvents(t, "Killing spec.containers{web}: Container web definition changed, will be restarted",
			"Created spec.containers{web}: Container created", "Started spec.containers{web}: Container started")
	})
}

func TestUnknownContainerIsStoppedBeforeItIsReplaced(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.mustSync(t)
		rt.Lose(b.newest(t, "web").ID)
		b.events.take()
		b.mustSync(t)
		b.wantRecords(t, "web/0 exited", "web/1 running")
		b.wantEvents(t, `Killing spec.containers{web}: Container is in "unknown" state, try killing it before restart`,
			"Created spec.containers{web}: Container created", "Started spec.containers{web}: Container started")
	})
}

func TestNothingStartsWhenAKillFailed(t *testing.T) {
	for name, breakIt := range map[string]func(b *bench){
		"one container": func(b *bench) { b.rt.Lose(b.rt.Containers(b.pod.UID)[0].ID) },
		"whole pod":     func(b *bench) { b.rt.Seed(fakecri.Pod{UID: b.pod.UID, Name: "shop", Attempt: 1}) },
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyAlways, "web")
				b.mustSync(t)
				breakIt(b)
				rt.Inject(fakecri.Fault{Method: "StopContainer", Err: errors.New("cannot"), Times: 1})
				if r := b.sync(t); r.Err == nil {
					t.Error("no error")
				}
				if n := len(rt.Containers(b.pod.UID)); n != 1 {
					t.Errorf("%d records, want only the first", n)
				}
				b.mustSync(t)
				if got := b.newest(t, "web"); !got.Alive || got.Attempt != 1 {
					t.Errorf("the replacement is %+v", got)
				}
			})
		})
	}
}

func TestLostAnswersStartNothingTwice(t *testing.T) {
	for _, method := range []string{"RunPodSandbox", "PodSandboxStatus", "PullImage", "CreateContainer", "StartContainer"} {
		for name, fault := range map[string]fakecri.Fault{
			"lost answer":  {Method: method, Lost: true, Times: 1},
			"link is down": {Method: method, Err: errdefs.ErrUnavailable, Times: 1},
		} {
			for _, restart := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/restart=%t", method, name, restart), func(t *testing.T) {
					scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
						b := newBench(rt, v1.RestartPolicyNever, "web")
						injected := rt.Inject(fault)
						r := b.sync(t)
						if !errdefs.IsUnavailable(r.Err) {
							t.Errorf("Sync = %v, want Unavailable", r.Err)
						}
						b.wantWaiting(t, "web", "", "")
						for _, e := range b.events.take() {
							if e != "Created spec.containers{web}: Container created" {
								t.Errorf("a lost answer was told of: %s", e)
							}
						}
						injected.Remove()
						if restart {
							b.restart()
						}
						b.mustSync(t)
						b.mustSync(t)
						b.wantRecords(t, "web/0 running")
						if n := len(rt.Sandboxes(b.pod.UID)); n != 1 {
							t.Errorf("%d sandboxes", n)
						}
					})
				})
			}
		}
	}
}

func TestCreatedContainerThatStartedMeanwhileIsNotToldOf(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		injected := rt.Inject(fakecri.Fault{Method: "StartContainer", Err: errdefs.ErrUnavailable, Times: 1})
		b.sync(t)
		injected.Remove()
		status := b.observe(t)
		if err := rt.Client().StartContainer(t.Context(), b.newest(t, "web").ID); err != nil { // the call arrives late
			t.Fatal(err)
		}
		b.events.take()
		if r := b.syncer.Sync(t.Context(), b.pod, status); r.Err == nil || !r.Acted {
			t.Errorf("result %+v, want an error and another look", r)
		}
		b.wantEvents(t)
		b.wantWaiting(t, "web", "", "")
		b.mustSync(t)
		b.wantRecords(t, "web/0 running")
	})
}

func TestCreatedContainerOfAnotherDefinitionIsReplacedUnderItsNumber(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		injected := rt.Inject(fakecri.Fault{Method: "StartContainer", Err: errdefs.ErrUnavailable, Times: 1})
		b.sync(t)
		injected.Remove()
		b.wantRecords(t, "web/0 created")
		b.pod.Spec.Containers[0].Image = "registry.test/web:2"
		b.mustSync(t)
		b.wantRecords(t, "web/0 running")
		if got := b.newest(t, "web").Config.GetImage().GetUserSpecifiedImage(); got != "registry.test/web:2" {
			t.Errorf("image %q", got)
		}
	})
}

func TestRestartCountSurvivesTheLossOfRecords(t *testing.T) {
	for _, tc := range []struct {
		name      string
		published int32
		logs      int32
		want      string
	}{
		{"logs and status", 5, 6, "web/6 running"},
		{"status only", 5, 0, "web/5 running"},
		{"logs only", 0, 6, "web/6 running"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyAlways, "web")
				b.pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "web", RestartCount: tc.published}}
				b.logs.next["web"] = tc.logs
				b.mustSync(t)
				b.wantRecords(t, tc.want)
			})
		})
	}
}

func TestLogFilesAreNotAskedForWhenRecordsTell(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.mustSync(t)
		b.exit(t, "web", 1)
		b.mustSync(t)
		if b.logs.asked != 1 {
			t.Errorf("the host was asked %d times, want once for the first start", b.logs.asked)
		}
	})
}

func TestVolumesThatAreNotReadyKeepWhatRuns(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.mustSync(t)
		b.pod.Spec.Containers[0].Image = "registry.test/web:2"
		b.volumes.prepare = errors.New("no such device")
		b.events.take()
		if r := b.sync(t); r.Err == nil {
			t.Error("no error")
		}
		b.wantRecords(t, "web/0 running")
		b.wantEvents(t, "FailedMount: Unable to attach or mount volumes: no such device")
		b.volumes.prepare = errdefs.ErrUnavailable
		b.sync(t)
		b.wantEvents(t)
	})
}

func TestEachBrokenVolumeIsToldAndAllOfThemWhenItIsLate(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		missing := &volume.SetUpError{Volume: "v", Err: errors.New(`secret "x" not found`)}
		b.volumes.prepare = &volume.UnmountedError{Causes: []*volume.SetUpError{missing}}
		b.sync(t)
		b.wantEvents(t, `FailedMount: MountVolume.SetUp failed for volume "v" : secret "x" not found`)
		b.volumes.prepare = &volume.UnmountedError{Causes: []*volume.SetUpError{missing}, TimedOut: true}
		b.sync(t)
		b.wantEvents(t, `FailedMount: MountVolume.SetUp failed for volume "v" : secret "x" not found`,
			"FailedMount: Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[]: context deadline exceeded")
	})
}

func TestVolumesAreMadeAnewForANewSandboxAndRefreshedOtherwise(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.mustSync(t)
		if !b.volumes.anew || b.volumes.refreshed != 0 {
			t.Errorf("the first start: anew %v, refreshed %d times", b.volumes.anew, b.volumes.refreshed)
		}
		b.events.take()
		b.volumes.refresh = &volume.UnmountedError{Causes: []*volume.SetUpError{{Volume: "v", Err: errors.New("gone")}}}
		b.exit(t, "web", 1)
		if r := b.sync(t); r.Err == nil {
			t.Error("a refresh that failed is not repeated")
		}
		if b.volumes.anew || b.volumes.refreshed != 1 || b.volumes.prepared != 2 {
			t.Errorf("a restart: anew %v, refreshed %d times, prepared %d times", b.volumes.anew, b.volumes.refreshed, b.volumes.prepared)
		}
		b.wantRecords(t, "web/0 exited", "web/1 running")
		b.volumes.refresh = nil
		b.mustSync(t)
		if b.volumes.refreshed != 2 || b.volumes.prepared != 2 {
			t.Errorf("nothing starts: refreshed %d times, prepared %d times", b.volumes.refreshed, b.volumes.prepared)
		}
	})
}

func TestHostIsNotBotheredWhenNothingStarts(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.mustSync(t)
		b.facts = nil
		b.mustSync(t)
		if b.volumes.prepared != 1 {
			t.Errorf("volumes were prepared %d times, want once", b.volumes.prepared)
		}
	})
}

func TestFactsThatAreNotKnownYetAreWaitedFor(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.facts = nil
		if r := b.sync(t); !errdefs.IsUnavailable(r.Err) || r.Acted {
			t.Errorf("result %+v, want Unavailable", r)
		}
		b.wantEvents(t)
	})
}

func TestCancelledSyncSaysNothingAndStartsNothing(t *testing.T) {
	for name, hang := range map[string]func(b *bench){
		"while a sandbox is made":  func(b *bench) { b.rt.Inject(fakecri.Fault{Method: "RunPodSandbox", Hang: true}) },
		"while an image is pulled": func(b *bench) { b.images.hang = true },
		"while it is inspected":    func(b *bench) { b.rt.Inject(fakecri.Fault{Method: "PodSandboxStatus", Hang: true}) },
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyAlways, "web,side")
				hang(b)
				status := b.observe(t)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				begin := time.Now()
				r := b.syncer.Sync(ctx, b.pod, status)
				if !errors.Is(r.Err, context.Canceled) || time.Since(begin) != time.Second {
					t.Errorf("Sync = %v after %s, want Canceled after 1s", r.Err, time.Since(begin))
				}
				b.wantEvents(t)
				b.wantRecords(t)
				b.wantWaiting(t, "web", "", "")
			})
		})
	}
}

func TestCancelDoesNotAbandonAContainerHalfWay(t *testing.T) {
	for _, tc := range []struct {
		method string
		want   []string
	}{
		{"CreateContainer", []string{"web/0 created"}},
		{"StartContainer", []string{"web/0 running"}},
	} {
		t.Run(tc.method, func(t *testing.T) {
			scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
				b := newBench(rt, v1.RestartPolicyAlways, "web,side")
				rt.Inject(fakecri.Fault{Method: tc.method, Delay: 5 * time.Second, Times: 1})
				status := b.observe(t)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				r := b.syncer.Sync(ctx, b.pod, status)
				if !errors.Is(r.Err, context.Canceled) {
					t.Errorf("Sync = %v, want Canceled", r.Err)
				}
				for _, c := range rt.Calls(tc.method) {
					if c.Err != nil {
						t.Errorf("the call was abandoned: %v", c.Err)
					}
				}
				b.wantRecords(t, tc.want...)
			})
		})
	}
}

func TestDeletedPodIsLeftToItsTermination(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web,side")
		b.mustSync(t)
		b.exit(t, "web", 1)
		b.pod.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		if r := b.mustSync(t); r.Acted {
			t.Error("something was done")
		}
		b.wantRecords(t, "web/0 exited", "side/0 running")
	})
}

func TestForgetDropsReasonsAndBackoff(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.mustSync(t)
		b.exit(t, "web", 1)
		b.mustSync(t)
		b.exit(t, "web", 1)
		b.sync(t)
		b.wantWaiting(t, "web", "CrashLoopBackOff", "back-off 10s restarting failed container=web pod=shop_default(uid-1)")
		b.syncer.Forget(b.pod.UID)
		b.wantWaiting(t, "web", "", "")
		b.mustSync(t)
		b.wantRecords(t, "web/0 exited", "web/1 exited", "web/2 running")
	})
}

func TestDNSProblemsAreToldOncePerSandbox(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		b.syncer.opts.ClusterDNS = nil
		b.mustSync(t)
		b.exit(t, "web", 1)
		b.mustSync(t)
		ofPod, ofNode := 0, 0
		for _, e := range b.events.take() {
			if text, ok := strings.CutPrefix(e, "MissingClusterDNS: "); ok {
				if strings.HasPrefix(text, "kubelet does not have ClusterDNS IP configured") {
					ofNode++
				} else {
					ofPod++
				}
			}
		}
		if ofPod != 1 || ofNode != 1 {
			t.Errorf("told %d times of the pod and %d times of the node", ofPod, ofNode)
		}
	})
}

func TestMetricsUseTheKubeletsNames(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "one|web")
		registry := prometheus.NewPedanticRegistry()
		b.syncer.opts.Registerer = registry
		b.syncer = New(b.syncer.opts)
		rt.Inject(fakecri.Fault{Method: "CreateContainer", Err: errors.New("no device"), Times: 1})
		b.sync(t)
		b.mustSync(t)
		got, err := testutil.GatherAndCount(registry,
			"kubelet_started_pods_total", "kubelet_started_pods_errors_total", "kubelet_started_containers_total",
			"kubelet_started_containers_errors_total", "kubelet_run_podsandbox_duration_seconds")
		if err != nil || got != 5 {
			t.Errorf("%d series, error %v; want 5", got, err)
		}
		if n := testutil.ToFloat64(b.syncer.metrics.failed.WithLabelValues("init_container", "CreateContainerError")); n != 1 {
			t.Errorf("%v failed starts, want 1", n)
		}
		if n := testutil.ToFloat64(b.syncer.metrics.started.WithLabelValues("init_container")); n != 2 {
			t.Errorf("%v starts, want 2", n)
		}
	})
}

func TestSyncWithoutAnObservationMakesTheSandbox(t *testing.T) {
	scenario(t, func(t *testing.T, rt *fakecri.Runtime) {
		b := newBench(rt, v1.RestartPolicyAlways, "web")
		if r := b.syncer.Sync(t.Context(), b.pod, nil); r.Err != nil {
			t.Fatal(r.Err)
		}
		if got := rt.Running(b.pod.UID); !slices.Equal(got, []string{"web"}) {
			t.Errorf("running %v", got)
		}
	})
}
