// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// updatesVariable says how often the large ConfigMap is updated; updatesByDefault is for the usual run.
	updatesVariable  = "TOMBOLO_E2E_UPDATES"
	updatesByDefault = 200
	// Each of the four files of the ConfigMap has that many lines of that many bytes: a mebibyte with everything around it.
	lineBytes   = 1020
	linesPerKey = 250
)

// generation is the content of the large ConfigMap: each line of each file says which one it is.
func generation(n int) map[string]string {
	line := fmt.Sprintf("%08d", n)
	file := strings.Repeat(line+strings.Repeat(".", lineBytes-len(line)-1)+"\n", linesPerKey)
	out := map[string]string{}
	for _, key := range []string{"a", "b", "c", "d"} {
		out[key] = file
	}
	return out
}

// TestLargeConfigMapIsNeverTornUnderItsReader updates a ConfigMap of a mebibyte over and over under a pod that reads its files all the
// time, and kills the node and the host half way, in the middle of updates.
func TestLargeConfigMapIsNeverTornUnderItsReader(t *testing.T) {
	t.Parallel()
	updates := updatesByDefault
	if text := os.Getenv(updatesVariable); text != "" {
		var err error
		updates, err = strconv.Atoi(text)
		must(t, err)
	}
	k := on(t, require(t).ownSite(t, "tide"))
	configMaps := k.client().CoreV1().ConfigMaps(k.namespace)
	object, err := configMaps.Create(t.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "tide"}, Data: generation(0)}, metav1.CreateOptions{})
	must(t, err)
	// Each file is copied by one open descriptor. A whole one has the right size and one kind of line; no file goes back.
	script := fmt.Sprintf(`last=0; while :; do for f in a b c d; do
			cat /config/$f > /dev/shm/copy 2> /dev/shm/error || { echo "missing $f: $(cat /dev/shm/error)" >> /marks/torn; continue; }
			size=$(stat -c %%s /dev/shm/copy); kinds=$(uniq /dev/shm/copy | wc -l); now=$(head -c 8 /dev/shm/copy)
			[ "$size" = %d ] && [ "$kinds" = 1 ] || echo "torn $f: $size bytes, $kinds kinds of lines" >> /marks/torn
		done; echo $now > /marks/.now; mv /marks/.now /marks/now; echo x >> /marks/reads; done`, lineBytes*linesPerKey)
	k.awaitPodReady(k.create(k.pod("reader", script, volumes(map[string]v1.VolumeSource{
		"config": {ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "tide"}}}}))))
	begin := time.Now()
	for n := 1; n <= updates; n++ {
		// One that etcd answers too late may have been made all the same.
		eventually(t, usual, "an update", func() error {
			object.ResourceVersion, object.Data = "", generation(n)
			_, err := configMaps.Update(t.Context(), object, metav1.UpdateOptions{})
			return err
		})
		switch n {
		case updates / 3:
			k.killNode(t)
			k.restartNode(t)
		case updates * 2 / 3:
			must(t, k.hostProc.Kill())
			must(t, k.startHost())
		}
		// Not much faster than a reader reads, or there would be nothing to see.
		if n%10 == 0 {
			reads := k.lines("reads")
			eventually(t, usual, "the pod reads", func() error {
				if k.lines("reads") == reads {
					return errNotYet
				}
				return nil
			})
		}
	}
	k.saw("now", fmt.Sprintf("%08d", updates), usual)
	t.Logf("%d updates in %v, the pod read all files %d times", updates, time.Since(begin), k.lines("reads"))
	if torn, err := os.ReadFile(k.mark("torn")); err == nil {
		t.Errorf("files were torn or missing:\n%s", torn)
	}
}
