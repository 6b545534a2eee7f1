// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// player runs a script in a world.
type player struct {
	*World
	pods  map[types.UID]*v1.Pod
	heals map[string]func()
}

// command runs one line.
type command func(p *player, args args) error

// commands are everything a script can say. What stands in brackets may be left out.
var commands map[string]command

func init() { //nolint:gochecknoinits // commands refer to each other through parse.
	commands = map[string]command{
		"create":       createPod,     // create UID
		"update":       updatePod,     // update NAME PATCH (a strategic merge patch)
		"status":       writeStatus,   // status NAME PATCH: another writer changes the status
		"delete":       deletePod,     // delete NAME grace=10s; grace=0s is a force delete
		"behave":       behave,        // behave UID[/CONTAINER] [exits=2s] [code=1] [term=5s|ignore] [start-error=TEXT] [then …]
		"hook":         hookTakes,     // hook UID[/CONTAINER] takes=5s [code=1]
		"probe":        probeFails,    // probe TARGET fails=N: the first N tries fail, -1 for all
		"message":      message,       // message UID/CONTAINER N TEXT: the termination message of the N-th restart
		"exit":         exitContainer, // exit UID/CONTAINER code=1 [reason=OOMKilled]
		"mark-oom":     markOOM,       // mark-oom UID/CONTAINER: the runtime learns that its end was one for want of memory
		"lose":         lose,          // lose UID/CONTAINER: its state becomes UNKNOWN while it lives
		"remove":       remove,        // remove UID/CONTAINER: its records that do not run vanish
		"forget":       forget,        // forget UID: all records of the pod vanish
		"kill-sandbox": killSandbox,   // kill-sandbox UID
		"clock":        clockSkew,     // clock skew=-1h: the host's clock jumps and is wrong by that much from now on
		"cut":          plain((*World).Cut),
		"mend":         plain((*World).Mend),
		"kill-host":    plain((*World).KillHost), // until mend
		"kill-node":    plain((*World).KillNode),
		"start-node":   plain((*World).StartNode),
		"trap":         setTrap, // trap before|after METHOD: the node dies at the call; it is started again after 1 s
		"api":          apiUp,   // api down|up
		"watch":        watch,   // watch silent|on
		"lists":        lists,   // lists empty|full
		// fault cri|host|api METHOD [UID[/CONTAINER]] [err=CLASS] [delay=1s] [hang] [lost] [times=1] [skip=1] [as=NAME]
		"fault": fault,
		"heal":  heal, // heal NAME
		"check": check,
	}
}

func plain(f func(*World)) command {
	return func(p *player, _ args) error {
		f(p.World)
		return nil
	}
}

// play runs the script and then checks the trace.
func (p *player) play(c *Case) error {
	for _, s := range c.Script {
		if now := time.Since(p.trace.begin); now < s.From {
			time.Sleep(s.From - now)
		}
		synctest.Wait()
		if err := p.step(s); err != nil {
			return fmt.Errorf("%q at %s: %w", s.Line, time.Since(p.trace.begin), err)
		}
		synctest.Wait()
	}
	if bad := match(c.Trace, p.trace.Events()); len(bad) > 0 {
		return errors.New(strings.Join(bad, "\n"))
	}
	return nil
}

// step runs one line, again and again until its time is up if it is a check.
func (p *player) step(s Step) error {
	for {
		err := commands[s.Command](p, args(s.Args))
		if err == nil || s.Command != "check" || time.Since(p.trace.begin) >= s.To {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
	}
}

// args are the words behind a command.
type args []string

func (a args) at(i int) string {
	if i < len(a) {
		return a[i]
	}
	return ""
}

// value returns what stands behind "key=".
func (a args) value(key string) string {
	for _, word := range a {
		if v, ok := strings.CutPrefix(word, key+"="); ok {
			return v
		}
	}
	return ""
}

func (a args) has(word string) bool {
	return slices.Contains(a, word)
}

func (a args) duration(key string) (time.Duration, error) {
	if v := a.value(key); v != "" {
		return time.ParseDuration(v)
	}
	return 0, nil
}

func (a args) number(key string) (int, error) {
	if v := a.value(key); v != "" {
		return strconv.Atoi(v)
	}
	return 0, nil
}

// target reads UID/CONTAINER.
func (a args) target() (types.UID, string) {
	uid, container, _ := strings.Cut(a.at(0), "/")
	return types.UID(uid), container
}

func createPod(p *player, a args) error {
	pod := p.pods[types.UID(a.at(0))]
	if pod == nil {
		return errors.New("there is no section for this pod")
	}
	p.introduce(pod)
	return p.API.Create(pod)
}

func updatePod(p *player, a args) error {
	var failed error
	p.API.Edit(podName(a.at(0)), func(pod *v1.Pod) {
		failed = mergePatch(pod, strings.Join(a[1:], " "))
	})
	return failed
}

func writeStatus(p *player, a args) error {
	var failed error
	p.API.EditStatus(podName(a.at(0)), func(s *v1.PodStatus) {
		failed = mergePatch(s, strings.Join(a[1:], " "))
	})
	return failed
}

func mergePatch[T any](object *T, patch string) error {
	before, err := json.Marshal(object)
	if err != nil {
		return err
	}
	after, err := strategicpatch.StrategicMergePatch(before, []byte(patch), *object)
	if err != nil {
		return err
	}
	var changed T
	if err := json.Unmarshal(after, &changed); err != nil {
		return err
	}
	*object = changed
	return nil
}

func deletePod(p *player, a args) error {
	grace, err := a.duration("grace")
	if err != nil || a.value("grace") == "" {
		return errors.New("use grace=10s, or grace=0s for a force delete")
	}
	p.API.Delete(podName(a.at(0)), grace)
	return nil
}

func behave(p *player, a args) error {
	uid, container := a.target()
	var steps []fakecri.Behaviour
	for one := range strings.SplitSeq(strings.Join(a[1:], " "), "then") {
		b, err := behaviourOf(strings.Fields(one))
		if err != nil {
			return err
		}
		steps = append(steps, b)
	}
	p.Runtime.Behave(fakecri.Selector{UID: uid, Container: container}, steps...)
	return nil
}

func behaviourOf(a args) (fakecri.Behaviour, error) {
	code, err := a.number("code")
	b := fakecri.Behaviour{
		Exits: a.value("exits") != "", ExitCode: int32(code), ExitReason: a.value("reason"), //nolint:gosec // written by hand.
		StartError: a.value("start-error"),
	}
	after, err2 := a.duration("exits")
	b.ExitAfter = after
	switch term := a.value("term"); term {
	case "":
	case "ignore":
		b.OnTERM.Ignore = true
	default:
		d, err3 := time.ParseDuration(term)
		err = errors.Join(err, err3)
		b.OnTERM.After = d
		if !b.Exits && a.value("code") != "" {
			b.OnTERM.ExitCode = &b.ExitCode
		}
	}
	return b, errors.Join(err, err2)
}

func hookTakes(p *player, a args) error {
	uid, container := a.target()
	takes, err := a.duration("takes")
	code, err2 := a.number("code")
	if code != 0 {
		p.excuses.all(uid)
	}
	p.Host.OnHook(uid, container, takes, int32(code)) //nolint:gosec // written by hand.
	return errors.Join(err, err2)
}

func probeFails(p *player, a args) error {
	fails, err := a.number("fails")
	for uid := range p.pods {
		p.excuses.all(uid)
	}
	p.Host.OnProbe(a.at(0), func(n int) host.ProbeResult {
		if fails < 0 || n <= fails {
			return host.ProbeResult{Outcome: host.ProbeFailure, Output: "refused"}
		}
		return host.ProbeResult{Outcome: host.ProbeSuccess}
	})
	return err
}

func message(p *player, a args) error {
	uid, container := a.target()
	n, err := strconv.Atoi(a.at(1))
	p.Host.SetMessage(uid, container, n, strings.Join(a[2:], " "))
	return err
}

// newest finds the newest record of the container that the first argument names.
func (p *player) newest(a args) (fakecri.Container, error) {
	uid, container := a.target()
	c, ok := p.Runtime.Newest(uid, container)
	if !ok {
		return c, errors.New("there is no such container")
	}
	return c, nil
}

func exitContainer(p *player, a args) error {
	c, err := p.newest(a)
	if err != nil {
		return err
	}
	if !c.Alive {
		return errors.New("the container does not live")
	}
	code, err := a.number("code")
	p.Runtime.ExitReason(c.ID, int32(code), a.value("reason")) //nolint:gosec // written by hand.
	return err
}

func markOOM(p *player, a args) error {
	c, err := p.newest(a)
	if err == nil {
		p.Runtime.MarkOOM(c.ID)
	}
	return err
}

func lose(p *player, a args) error {
	c, err := p.newest(a)
	if err == nil {
		p.excuses.lose(c.UID, c.ID)
		p.Runtime.Lose(c.ID)
	}
	return err
}

func remove(p *player, a args) error {
	uid, container := a.target()
	for _, c := range p.Runtime.Containers(uid) {
		if c.Name == container && !c.Alive {
			p.Runtime.ForgetContainer(c.ID)
		}
	}
	return nil
}

func forget(p *player, a args) error {
	p.Runtime.Forget(types.UID(a.at(0)))
	return nil
}

func killSandbox(p *player, a args) error {
	for _, s := range p.Runtime.Sandboxes(types.UID(a.at(0))) {
		if s.Ready {
			p.Runtime.KillSandbox(s.ID)
		}
	}
	return nil
}

func clockSkew(p *player, a args) error {
	skew, err := a.duration("skew")
	p.Runtime.SetSkew(skew)
	return err
}

func setTrap(p *player, a args) error {
	if a.at(0) != "before" && a.at(0) != "after" || a.at(1) == "" {
		return errors.New("use trap before|after METHOD")
	}
	p.SetTrap(Trap{Method: a.at(1), After: a.at(0) == "after"}, time.Second)
	return nil
}

func apiUp(p *player, a args) error {
	if a.at(0) == "down" {
		p.API.Down()
	} else {
		p.API.Up()
	}
	return nil
}

func watch(p *player, a args) error {
	p.API.SetGap(a.at(0) == "silent")
	return nil
}

func lists(p *player, a args) error {
	p.API.SetHidden(a.at(0) == "empty")
	return nil
}

// classes are the errors a fault can return.
var classes = map[string]error{
	"": nil, "unavailable": errdefs.ErrUnavailable, "not-found": errdefs.ErrNotFound, "unknown": errors.New("it went wrong"),
	"deadline": context.DeadlineExceeded, "conflict": errdefs.ErrConflict, "precondition": errdefs.ErrFailedPrecondition,
}

func fault(p *player, a args) error {
	class, ok := classes[a.value("err")]
	if !ok {
		return fmt.Errorf("unknown class of error %q", a.value("err"))
	}
	delay, err := a.duration("delay")
	times, err2 := a.number("times")
	skip, err3 := a.number("skip")
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	uid, container := "", ""
	if !strings.Contains(a.at(2), "=") && a.at(2) != "hang" && a.at(2) != "lost" {
		uid, container, _ = strings.Cut(a.at(2), "/")
	}
	f := Fault{
		Method: a.at(1), UID: types.UID(uid), Times: times, Delay: delay, Hang: a.has("hang"), Err: class, Lost: a.has("lost"),
	}
	var end func()
	switch a.at(0) {
	case "cri":
		end = p.Runtime.Inject(fakecri.Fault{
			Method: f.Method, Selector: fakecri.Selector{UID: f.UID, Container: container}, Skip: skip, Times: times,
			Delay: delay, Hang: f.Hang, Err: class, Lost: f.Lost,
		}).Remove
	case "host":
		end = p.Host.inject(f)
	case "api":
		end = p.API.inject(f)
	default:
		return errors.New("use fault cri|host|api METHOD")
	}
	if f.Method == "ExecSync" { // what probes ask
		p.excuses.all(f.UID)
	}
	side, name := blindHost, a.value("as")
	if a.at(0) == "api" {
		side = blindAPI
	}
	key := cmp.Or(name, fmt.Sprintf("fault %d", len(p.heals)))
	p.blind(side, key, "fault "+strings.Join(a, " "))
	p.heals[key] = func() {
		end()
		p.sees(side, key, "fault ends "+key)
	}
	return nil
}

func heal(p *player, a args) error {
	end := p.heals[a.at(0)]
	if end == nil {
		return errors.New("there is no such fault")
	}
	end()
	delete(p.heals, a.at(0))
	return nil
}

// close ends what a script left open, so that the bubble can end.
func (p *player) close() {
	for end := range maps.Values(p.heals) {
		end()
	}
	p.World.close()
}
