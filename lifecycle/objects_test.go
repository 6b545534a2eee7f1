// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// withSecretEnv lets the pod's container take its environment from a Secret.
func withSecretEnv(p *v1.Pod) {
	from := &v1.SecretEnvSource{}
	from.Name = "s"
	p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{SecretRef: from}}
}

func (w *world) waits(uid types.UID, reason, message string) func() bool {
	return func() bool {
		p := w.api.get(uid)
		return p != nil && slices.ContainsFunc(p.Status.ContainerStatuses, func(s v1.ContainerStatus) bool {
			return s.State.Waiting != nil && s.State.Waiting.Reason == reason && s.State.Waiting.Message == message
		})
	}
}

func TestPodStartsAsSoonAsTheObjectIsThereThatItRefersTo(t *testing.T) {
	inWorld(t, func(w *world) {
		w.api.create(testPod("a", withSecretEnv))
		w.eventually("waiting for the secret", 10*time.Second, w.waits("a", "CreateContainerConfigError", `secret "s" not found`))
		w.objects.change(func() { w.objects.secrets["ns/s"] = &v1.Secret{Data: map[string][]byte{"K": []byte("v")}} })
		w.engine.Refresh([]types.UID{"a", "unknown"})
		w.eventually("running", 3*time.Second, w.running("a"))
		if restarts := w.api.get("a").Status.ContainerStatuses[0].RestartCount; restarts != 0 {
			t.Errorf("%d restarts", restarts)
		}
	})
}

func TestChangedObjectRestartsNothingAndIsForgottenWithThePod(t *testing.T) {
	inWorld(t, func(w *world) {
		w.objects.secrets["ns/s"] = &v1.Secret{Data: map[string][]byte{"K": []byte("v")}}
		w.api.create(testPod("a", withSecretEnv))
		w.eventually("running", 10*time.Second, w.running("a"))
		creates := len(w.cri.Calls("CreateContainer"))
		w.objects.change(func() { w.objects.secrets["ns/s"] = &v1.Secret{Data: map[string][]byte{"K": []byte("w")}} })
		w.engine.Refresh([]types.UID{"a"})
		time.Sleep(2 * time.Minute)
		if n := len(w.cri.Calls("CreateContainer")); n != creates {
			t.Errorf("%d containers were made because of the change", n-creates)
		}
		w.api.delete("a", 1)
		w.eventually("gone", 15*time.Second, w.gone("a"))
		w.objects.change(func() {
			if w.objects.readers["a"] {
				t.Error("the pod's references are kept after its end")
			}
		})
	})
}
