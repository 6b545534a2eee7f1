// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tombolo-dev/tombolo/test/fakecri"
)

// An object with finalizers outlives its deletion, and what it tells then is final.
func TestEndOfAContainerIsInTheAPIBeforeItsObjectIsDeleted(t *testing.T) {
	inWorld(t, func(w *world) {
		var deleted atomic.Bool
		w.api.onDelete = func(uid types.UID) {
			deleted.Store(true)
			c, _ := w.cri.Newest("a", "main")
			st := w.api.pods[uid].Status.ContainerStatuses[0]
			if end := st.State.Terminated; end == nil || end.ExitCode != 7 || end.FinishedAt.Unix() != c.FinishedAt.Unix() {
				t.Errorf("the object that is deleted says %+v, want exit code 7 at %s", st.State, c.FinishedAt)
			}
		}
		w.cri.Behave(fakecri.Selector{Container: "main"}, fakecri.Behaviour{OnTERM: fakecri.TERM{After: 4 * time.Second, ExitCode: new(int32(7))}})
		w.api.create(testPod("a", withPreStop))
		w.eventually("running", 10*time.Second, w.running("a"))
		w.api.delete("a", 30)
		w.eventually("deleted", 20*time.Second, deleted.Load)
	})
}
