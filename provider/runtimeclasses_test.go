// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"testing"

	"github.com/containerd/errdefs"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestRuntimeHandlerOfAClass(t *testing.T) {
	client := fake.NewClientset(&nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"})
	var broken error
	client.PrependReactor("get", "runtimeclasses", func(clienttesting.Action) (bool, runtime.Object, error) {
		return broken != nil, nil, broken
	})
	classes := newRuntimeClasses(client.NodeV1())
	ask := func(class, want, wantErr string) {
		t.Helper()
		got, err := classes.RuntimeHandler(t.Context(), class)
		if got != want || (err == nil) != (wantErr == "") || err != nil && err.Error() != wantErr {
			t.Errorf("class %s: %q, %v, want %q, %s", class, got, err, want, wantErr)
		}
		if errdefs.IsUnavailable(err) {
			t.Errorf("class %s: the host is blamed: %v", class, err)
		}
	}
	ask("gvisor", "runsc", "")
	ask("kata", "", `runtimeclass.node.k8s.io "kata" not found`)

	broken = errors.New("connection refused")
	ask("gvisor", "runsc", "") // as it was
	ask("kata", "", "failed to lookup RuntimeClass kata: connection refused")

	broken = nil
	if err := client.NodeV1().RuntimeClasses().Delete(t.Context(), "gvisor", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ask("gvisor", "", `runtimeclass.node.k8s.io "gvisor" not found`)
	broken = errors.New("connection refused")
	ask("gvisor", "", "failed to lookup RuntimeClass gvisor: connection refused")
}
