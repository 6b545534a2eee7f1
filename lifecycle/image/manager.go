// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/utils/clock"

	"github.com/tombolo-dev/tombolo/cri"
	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/image/keyring"
	"github.com/tombolo-dev/tombolo/lifecycle/podref"
)

// The back-off of a failing pull: it starts with the first and doubles with each failure up to the second, the kubelet's
// image back-off. It starts anew after twice the maximum without a failure.
const (
	InitialBackoff = 10 * time.Second
	MaxBackoff     = 300 * time.Second
)

// Reasons of the events about images.
const (
	eventPulling      = "Pulling"
	eventPulled       = "Pulled"
	eventFailed       = "Failed"
	eventBackOff      = "BackOff"
	eventInspect      = "InspectFailed"
	eventNeverPresent = "ErrImageNeverPull"
	eventNoSecret     = "FailedToRetrieveImagePullSecret"
)

// Runtime is the runtime's image service. Errors are classes; Unavailable means that no answer came.
type Runtime interface {
	// ImageStatus returns nil and no error if the image is not present.
	ImageStatus(ctx context.Context, image string) (*runtimeapi.Image, error)
	// PullImage returns the reference to create containers from. It has no deadline and stops when ctx ends.
	PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (ref string, err error)
	ListImages(ctx context.Context) ([]*runtimeapi.Image, error)
}

// Options are what a Manager needs. Images, Records, Clock and Recorder are required.
type Options struct {
	Images  Runtime
	Records Records
	// Secrets has the pull secrets of pods. Without it they count as missing.
	Secrets  Secrets
	Clock    clock.Clock
	Recorder record.EventRecorder
	// MaxParallelPulls limits how many pulls run at once on the machine; the others wait for their turn. Zero means no
	// limit but the one that a pod pulls one image at a time; one is the kubelet's serializeImagePulls. With a limit,
	// that many hanging pulls hold up all others.
	MaxParallelPulls int
	Logger           *slog.Logger
	Registerer       prometheus.Registerer
}

// Manager makes images available. See the package documentation for its concurrency.
type Manager struct {
	images   Runtime
	records  Records
	secrets  Secrets
	access   *accesses
	clock    clock.Clock
	recorder record.EventRecorder
	log      *slog.Logger
	metrics  *metrics
	backoff  *pullBackoff
	turns    *semaphore.Weighted // nil without a limit
}

// New returns a Manager.
func New(o Options) *Manager {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Manager{
		images:   o.Images,
		records:  o.Records,
		secrets:  o.Secrets,
		access:   newAccesses(),
		clock:    o.Clock,
		recorder: o.Recorder,
		log:      o.Logger,
		metrics:  newMetrics(o.Registerer),
		backoff:  newPullBackoff(o.Clock),
	}
	if o.MaxParallelPulls > 0 {
		m.turns = semaphore.NewWeighted(int64(o.MaxParallelPulls))
	}
	return m
}

// EnsureImage returns the reference to create the container from, pulling the image if the container's policy says so.
// The sandbox configuration goes to the runtime with the pull.
//
// An error of type *Error is about the image: it has been told by an event and carries the container's waiting reason.
// Every other error says only that the runtime could not be asked (or that ctx ended): nothing was told and no back-off
// begins, so the caller may ask again at once. EnsureImage is idempotent.
func (m *Manager) EnsureImage(ctx context.Context, pod *v1.Pod, container *v1.Container, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	r := &request{
		pod: pod, sandbox: sandbox, named: container.Image, policy: container.ImagePullPolicy,
		object: podref.Container(pod, container.Name), present: labelUnknown, required: labelUnknown,
	}
	ref, err := m.ensure(ctx, r, container)
	m.metrics.requested(r.policy, r.present, r.required)
	return ref, err
}

// Forget drops the back-off of a pod that is gone.
func (m *Manager) Forget(uid types.UID) { m.backoff.forget(uid) }

// request is one call of EnsureImage.
type request struct {
	pod     *v1.Pod
	sandbox *runtimeapi.PodSandboxConfig
	object  *v1.ObjectReference
	policy  v1.PullPolicy
	named   string // as the user wrote it
	image   string // with tag

	// credentials are the pod's for the image, once they were asked for.
	credentials []keyring.Credential
	asked       bool
	// denied says that the image is present, and not for the pod unless its registry agrees.
	denied bool

	present, required string // label values
}

func (m *Manager) ensure(ctx context.Context, r *request, container *v1.Container) (string, error) {
	image, err := WithDefaultTag(r.named)
	if err != nil {
		return "", m.fail(r, eventInspect, &Error{
			reason:  ReasonInvalidImageName,
			message: fmt.Sprintf("Failed to apply default image tag %q: %v", r.named, err),
			cause:   err,
		})
	}
	r.image, r.policy = image, pullPolicy(container, image)
	if r.policy != v1.PullAlways {
		ref, err := m.lookUp(ctx, r)
		if ref != "" || err != nil {
			return ref, err
		}
	}
	r.required = labelTrue
	return m.pull(ctx, r)
}

// lookUp returns the reference of an image that is present and that the pod may use, or "" if it has to be pulled.
func (m *Manager) lookUp(ctx context.Context, r *request) (string, error) {
	status, records, err := m.inspect(ctx, r)
	if err != nil {
		return "", err
	}
	r.present = labelFalse
	if status != nil {
		r.present = labelTrue
		allowed, err := m.mayUse(ctx, r, status, records)
		if err != nil {
			return "", fmt.Errorf("looking for credentials for image %q: %w", r.image, err)
		}
		if allowed {
			r.required = labelFalse
			m.event(r, v1.EventTypeNormal, eventPulled, fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", r.named))
			return status.GetId(), nil
		}
		r.denied = true
	}
	if r.policy == v1.PullNever { // that it is present is nobody's business who may not use it
		return "", m.fail(r, eventNeverPresent, &Error{
			reason:  ReasonErrImageNeverPull,
			message: fmt.Sprintf("Container image %q is not present with pull policy of Never", r.named),
		})
	}
	return "", nil
}

// inspect asks for the image, nil if it is not present, and at the same time for the records of who may use what.
func (m *Manager) inspect(ctx context.Context, r *request) (*runtimeapi.Image, []host.ImageRecord, error) {
	var records []host.ImageRecord
	var recordsErr error
	var asking sync.WaitGroup
	pulls := m.access.pulls()
	asking.Go(func() { records, recordsErr = m.records.ListImageRecords(ctx) })
	status, err := m.images.ImageStatus(ctx, r.image)
	asking.Wait()
	if status != nil && m.access.pulls() != pulls { // the records may be older than what a pull has brought since
		records, recordsErr = m.records.ListImageRecords(ctx)
	}
	switch {
	case err != nil && (ctx.Err() != nil || cri.OutcomeUnknown(err)):
		return nil, nil, fmt.Errorf("inspecting image %q: %w", r.image, err)
	case err != nil:
		return nil, nil, m.fail(r, eventInspect, &Error{
			reason:  ReasonInspectError,
			message: fmt.Sprintf("Failed to inspect image %q: %v", r.image, err),
			cause:   err,
		})
	case status != nil && recordsErr != nil:
		return nil, nil, fmt.Errorf("looking for who may use image %q: %w", r.image, recordsErr)
	}
	return status, records, nil
}

// fail tells of a failure by a warning with the same text and returns it.
func (m *Manager) fail(r *request, reason string, err *Error) error {
	m.event(r, v1.EventTypeWarning, reason, err.message)
	return err
}

func (m *Manager) event(r *request, eventType, reason, message string) {
	m.recorder.Event(r.object, eventType, reason, message)
	m.log.Debug("image event", "pod", r.pod.Namespace+"/"+r.pod.Name, "uid", r.pod.UID, "image", r.named, "reason", reason, "message", message)
}
