// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
)

func (f *fakeObjects) TrustBundle(_ context.Context, _ *v1.Pod, name string) (*certificatesv1.ClusterTrustBundle, error) {
	for _, b := range f.bundles {
		if b.Name == name {
			return b, nil
		}
	}
	return nil, notFound(fmt.Sprintf("clustertrustbundle %q not found", name))
}

func (f *fakeObjects) TrustBundles(_ context.Context, _ *v1.Pod, signer string, wanted labels.Selector) ([]*certificatesv1.ClusterTrustBundle, error) {
	var out []*certificatesv1.ClusterTrustBundle
	for _, b := range f.bundles {
		if b.Spec.SignerName == signer && wanted.Matches(labels.Set(b.Labels)) {
			out = append(out, b)
		}
	}
	return out, nil
}

func certificate(text string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte(text)}))
}

func bundle(name, signer, content string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"live": "yes"}},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: content},
	}
}

func TestTrustBundlesAreProjected(t *testing.T) {
	objects := &fakeObjects{bundles: []*certificatesv1.ClusterTrustBundle{
		bundle("one", "", "a comment\n"+certificate("b")+certificate("a")+certificate("b")),
		bundle("x:1", "x", certificate("c")), bundle("x:2", "x", certificate("a")+certificate("c")), bundle("y:1", "y", certificate("d")),
	}}
	all := &metav1.LabelSelector{}
	for name, tt := range map[string]struct {
		source v1.ClusterTrustBundleProjection
		want   string
		fails  string
	}{
		"by name":             {source: v1.ClusterTrustBundleProjection{Name: ptr.To("one")}, want: certificate("a") + certificate("b")},
		"by signer":           {source: v1.ClusterTrustBundleProjection{SignerName: ptr.To("x"), LabelSelector: all}, want: certificate("a") + certificate("c")},
		"by labels":           {source: v1.ClusterTrustBundleProjection{SignerName: ptr.To("y"), LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"live": "yes"}}}, want: certificate("d")},
		"no selector":         {source: v1.ClusterTrustBundleProjection{SignerName: ptr.To("x")}, fails: "combination of signerName and labelSelector matched zero ClusterTrustBundles"},
		"no match":            {source: v1.ClusterTrustBundleProjection{SignerName: ptr.To("z"), LabelSelector: all}, fails: "combination of signerName and labelSelector matched zero ClusterTrustBundles"},
		"no match, optional":  {source: v1.ClusterTrustBundleProjection{SignerName: ptr.To("z"), LabelSelector: all, Optional: ptr.To(true)}},
		"not there":           {source: v1.ClusterTrustBundleProjection{Name: ptr.To("none")}, fails: `while getting ClusterTrustBundle: clustertrustbundle "none" not found`},
		"not there, optional": {source: v1.ClusterTrustBundleProjection{Name: ptr.To("none"), Optional: ptr.To(true)}},
		"neither":             {fails: "ClusterTrustBundle projection requires either name or signerName to be set"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.source.Path = "ca.pem"
			pod := testPod()
			pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ClusterTrustBundle: &tt.source}}}}
			pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: ptr.To[int64](5)}
			dirs := &fakeDirs{}
			err := newManager(dirs, objects).Prepare(t.Context(), pod, false)
			var cause *SetUpError
			if tt.fails != "" {
				if !errors.As(err, &cause) || cause.Err.Error() != tt.fails {
					t.Errorf("got %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]host.File{{Path: "ca.pem", Data: []byte(tt.want), Mode: 0o600}}, dirs.sets[0].Files, cmp.Comparer(func(a, b []byte) bool { return string(a) == string(b) })); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTrustBundlesAreForTheUserOfThePod as other projected files of the pod are, with the kubelet's order of precedence.
func TestTrustBundlesAreForTheUserOfThePod(t *testing.T) {
	objects := &fakeObjects{bundles: []*certificatesv1.ClusterTrustBundle{bundle("one", "", certificate("a"))}}
	for name, tt := range map[string]struct {
		runAs, usual, own *int64
		user              *int64
		mode              uint32
	}{
		"nobody's":           {mode: 0o644},
		"the pod's":          {runAs: ptr.To[int64](7), user: ptr.To[int64](7), mode: 0o600},
		"the volume's":       {runAs: ptr.To[int64](7), usual: ptr.To[int64](8), user: ptr.To[int64](8), mode: 0o600},
		"that of the bundle": {runAs: ptr.To[int64](7), usual: ptr.To[int64](8), own: ptr.To[int64](9), user: ptr.To[int64](9), mode: 0o600},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testPod()
			pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{
				DefaultMode: ptr.To[int32](0o644), DefaultUser: tt.usual,
				Sources: []v1.VolumeProjection{{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: ptr.To("one"), Path: "ca.pem", User: tt.own}}},
			}}
			pod.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: tt.runAs}
			dirs := &fakeDirs{}
			if err := newManager(dirs, objects).Prepare(t.Context(), pod, false); err != nil {
				t.Fatal(err)
			}
			if got := dirs.sets[0].Files[0]; !ptr.Equal(got.User, tt.user) || got.Mode != tt.mode {
				t.Errorf("for user %v with mode %o, want %v and %o", ptr.Deref(got.User, -1), got.Mode, ptr.Deref(tt.user, -1), tt.mode)
			}
		})
	}
}
