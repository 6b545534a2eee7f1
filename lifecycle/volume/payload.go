// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/containerd/errdefs"
	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/host"
	"github.com/tombolo-dev/tombolo/lifecycle/downward"
)

// Modes of files.
const (
	// defaultMode is the API's default.
	defaultMode int32 = 0o644
	// privateMode is that of credentials of the pod when it is known who shall read them.
	privateMode int32 = 0o600
)

// isFileSet says whether a volume consists of files that the node writes.
func isFileSet(v *v1.Volume) bool { return kindOf(v) != "" && v.EmptyDir == nil }

// kindOf returns what a volume is below the pod's directory, "" if it is elsewhere.
func kindOf(v *v1.Volume) host.VolumeKind {
	switch {
	case v.EmptyDir != nil:
		return host.EmptyDirVolume
	case v.ConfigMap != nil:
		return host.ConfigMapVolume
	case v.Secret != nil:
		return host.SecretVolume
	case v.DownwardAPI != nil:
		return host.DownwardAPIVolume
	case v.Projected != nil:
		return host.ProjectedVolume
	default:
		return ""
	}
}

// fileSet puts together the whole content of a volume.
func (s *setUp) fileSet(ctx context.Context, v *v1.Volume) (host.FileSet, error) {
	c := collector{setUp: s, volume: v.Name, files: map[string]host.File{}}
	var err error
	switch {
	case v.ConfigMap != nil:
		c.mode, c.user = ptr.Deref(v.ConfigMap.DefaultMode, defaultMode), v.ConfigMap.DefaultUser
		err = c.configMap(ctx, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Secret != nil:
		c.mode, c.user = ptr.Deref(v.Secret.DefaultMode, defaultMode), v.Secret.DefaultUser
		err = c.secret(ctx, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	case v.DownwardAPI != nil:
		c.mode, c.user = ptr.Deref(v.DownwardAPI.DefaultMode, defaultMode), v.DownwardAPI.DefaultUser
		err = c.downward(v.DownwardAPI.Items)
	default:
		c.mode, c.user = ptr.Deref(v.Projected.DefaultMode, defaultMode), v.Projected.DefaultUser
		err = c.projected(ctx, v.Projected.Sources)
	}
	if err != nil {
		return host.FileSet{}, err
	}
	points, err := mountPoints(&s.pod.Spec, v.Name)
	if err != nil {
		return host.FileSet{}, err
	}
	set := host.FileSet{
		Volume: v.Name, Kind: kindOf(v), FSGroup: fsGroup(s.pod), MountPoints: points,
		SizeBytes: memorySize(s.pod, nil, s.opts.Allocatable()),
	}
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		set.Files = append(set.Files, c.files[name])
	}
	return set, nil
}

// collector gathers files. Of two files with the same path the later one counts.
type collector struct {
	*setUp
	volume string
	mode   int32                // of files without one of their own
	user   *int64               // of files without one of their own
	files  map[string]host.File // by clean path
}

func (c *collector) add(name string, data []byte, mode *int32, user *int64) {
	if user == nil {
		user = c.user
	}
	bits := uint32(ptr.Deref(mode, c.mode)) //nolint:gosec // the API allows permission bits only
	c.files[path.Clean(name)] = host.File{Path: name, Data: data, Mode: bits, User: user}
}

// projected gathers the files of several sources, and what is wrong with any of them.
func (c *collector) projected(ctx context.Context, sources []v1.VolumeProjection) error {
	var problems []error
	for i, source := range sources {
		var err error
		switch {
		case source.Secret != nil:
			err = c.secret(ctx, source.Secret.Name, source.Secret.Items, source.Secret.Optional)
		case source.ConfigMap != nil:
			err = c.configMap(ctx, source.ConfigMap.Name, source.ConfigMap.Items, source.ConfigMap.Optional)
		case source.DownwardAPI != nil:
			err = c.downward(source.DownwardAPI.Items)
		case source.ServiceAccountToken != nil:
			err = c.token(ctx, source.ServiceAccountToken)
		case source.ClusterTrustBundle != nil:
			err = c.trust(ctx, source.ClusterTrustBundle)
		case source.PodCertificate != nil:
			err = c.certificate(ctx, i, source.PodCertificate)
		default:
			err = fmt.Errorf("projections of this kind are not supported: %w", errdefs.ErrNotImplemented)
		}
		if err != nil {
			problems = append(problems, err)
		}
	}
	return utilerrors.NewAggregate(problems)
}

func (c *collector) configMap(ctx context.Context, name string, items []v1.KeyToPath, optional *bool) error {
	object, err := c.opts.Objects.ConfigMap(ctx, c.pod, name)
	if errdefs.IsNotFound(err) && ptr.Deref(optional, false) {
		object, err = &v1.ConfigMap{}, nil
	}
	if err != nil {
		return err
	}
	data := make(map[string][]byte, len(object.Data)+len(object.BinaryData))
	maps.Copy(data, object.BinaryData)
	for key, text := range object.Data {
		data[key] = []byte(text)
	}
	return c.keys(data, items, optional, "configmap references non-existent config key: %s")
}

func (c *collector) secret(ctx context.Context, name string, items []v1.KeyToPath, optional *bool) error {
	object, err := c.opts.Objects.Secret(ctx, c.pod, name)
	if errdefs.IsNotFound(err) && ptr.Deref(optional, false) {
		object, err = &v1.Secret{}, nil
	}
	if err != nil {
		return err
	}
	return c.keys(object.Data, items, optional, "references non-existent secret key: %s")
}

// keys gathers the wanted keys of an object, all if none is named.
func (c *collector) keys(data map[string][]byte, items []v1.KeyToPath, optional *bool, missing string) error {
	if len(items) == 0 {
		for key, content := range data {
			c.add(key, content, nil, nil)
		}
	}
	for _, item := range items {
		content, ok := data[item.Key]
		switch {
		case ok:
			c.add(item.Path, content, item.Mode, item.User)
		case !ptr.Deref(optional, false):
			return fmt.Errorf(missing, item.Key)
		}
	}
	return nil
}

func (c *collector) downward(items []v1.DownwardAPIVolumeFile) error {
	var problems []error
	for _, item := range items {
		var text string
		var err error
		switch {
		case item.FieldRef != nil:
			text, err = downward.Field(c.pod, item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			text, err = c.resource(item.ResourceFieldRef)
		}
		if err != nil {
			problems = append(problems, err)
		}
		c.add(item.Path, []byte(text), item.Mode, item.User)
	}
	return utilerrors.NewAggregate(problems)
}

func (c *collector) resource(ref *v1.ResourceFieldSelector) (string, error) {
	allocatable := c.opts.Allocatable()
	if allocatable == nil {
		return "", errors.New("the node's allocatable resources are not known yet")
	}
	return downward.Resource(c.pod, nil, ref, allocatable)
}

// token gathers a token that only the pod's user or group can read, if it has one.
func (c *collector) token(ctx context.Context, source *v1.ServiceAccountTokenProjection) error {
	token, err := c.opts.Objects.Token(ctx, c.pod, source.Audience, ptr.Deref(source.ExpirationSeconds, 0))
	if err != nil {
		return err
	}
	user, mode := c.soleReader(source.User)
	c.add(source.Path, []byte(token), &mode, user)
	return nil
}

// soleReader is reader for credentials of the pod and for whom it trusts: they are for the one user that it runs as, if nothing else is said.
func (c *collector) soleReader(own *int64) (user *int64, mode int32) {
	if c.user != nil {
		return c.reader(own, c.user)
	}
	return c.reader(own, soleUser(c.pod))
}

// reader returns who owns a file with what only the pod shall read, and its mode: if it is known who reads it, nobody else can.
func (c *collector) reader(own, usual *int64) (user *int64, mode int32) {
	user, mode = usual, c.mode
	if own != nil {
		user = own
	}
	if user != nil || fsGroup(c.pod) != nil {
		mode = privateMode
	}
	return user, mode
}
