// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
)

// check looks at the state of things. What it can say:
//
//	check gone NAME
//	check phase NAME PHASE
//	check ready NAME, check unready NAME
//	check running UID [CONTAINER…]         exactly these live
//	check restarts NAME/CONTAINER N        the API says so
//	check exit NAME/CONTAINER CODE         its newest end in the API
//	check reason NAME/CONTAINER REASON     of waiting or termination, now or last
//	check message NAME/CONTAINER TEXT      of its newest end in the API
//	check log UID/CONTAINER PATH           of its newest record, relative to the pod's
//	check sandboxes UID N
//	check healthy
func check(p *player, a args) error {
	switch what, rest := a.at(0), a[min(1, len(a)):]; what {
	case "healthy":
		return p.node.engine.Healthy()
	case "running":
		uid, _ := rest.target()
		got := p.Runtime.Running(uid)
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(rest[1:])); !slices.Equal(got, want) {
			return fmt.Errorf("%q run", got)
		}
		return nil
	case "log":
		c, err := p.newest(rest)
		if err != nil {
			return err
		}
		return equal(rest.at(1), c.Config.GetLogPath())
	case "sandboxes":
		uid, _ := rest.target()
		return equal(rest.at(1), strconv.Itoa(len(p.Runtime.Sandboxes(uid))))
	default:
		return p.checkPod(what, rest)
	}
}

func equal(want, got string) error {
	if got != want {
		return fmt.Errorf("it is %q", got)
	}
	return nil
}

func (p *player) checkPod(what string, a args) error {
	name, container := a.target()
	pod := p.API.Pod(podName(string(name)))
	if what == "gone" {
		if pod != nil {
			return errors.New("it is there")
		}
		return nil
	}
	if pod == nil {
		return errors.New("the pod is gone")
	}
	switch what {
	case "phase":
		return equal(a.at(1), string(pod.Status.Phase))
	case "ready":
		return equal("true", strconv.FormatBool(ready(pod)))
	case "unready":
		return equal("false", strconv.FormatBool(ready(pod)))
	}
	s := statusOf(pod, container)
	if s == nil {
		return errors.New("there is no status of the container")
	}
	return checkContainer(what, a.at(1), s)
}

func checkContainer(what, want string, s *v1.ContainerStatus) error {
	end := s.State.Terminated
	if end == nil {
		end = s.LastTerminationState.Terminated
	}
	switch what {
	case "restarts":
		return equal(want, strconv.Itoa(int(s.RestartCount)))
	case "reason":
		if s.State.Waiting != nil && s.State.Waiting.Reason == want {
			return nil
		}
	case "exit", "message":
	default:
		return fmt.Errorf("nobody can check %q", what)
	}
	if end == nil {
		return errors.New("it never ended")
	}
	switch what {
	case "exit":
		return equal(want, strconv.Itoa(int(end.ExitCode)))
	case "message":
		return equal(want, end.Message)
	default:
		return equal(want, end.Reason)
	}
}
