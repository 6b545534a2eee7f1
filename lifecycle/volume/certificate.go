// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"context"

	v1 "k8s.io/api/core/v1"
)

// PodCertificates has keys of pods certified. The errors are those of Objects.
type PodCertificates interface {
	// PodCertificate returns the private key and the certificates of one source of a projected volume, both in PEM.
	PodCertificate(ctx context.Context, pod *v1.Pod, volume string, source int, want *v1.PodCertificateProjection) (key, chain []byte, err error)
}

// certificate gathers a key and its certificates, in one file or two.
func (c *collector) certificate(ctx context.Context, source int, want *v1.PodCertificateProjection) error {
	key, chain, err := c.opts.Keys.PodCertificate(ctx, c.pod, c.volume, source, want)
	if err != nil {
		return err
	}
	user, mode := c.soleReader(want.User)
	for _, file := range []struct {
		path    string
		content []byte
	}{
		{want.CredentialBundlePath, bytes.Join([][]byte{key, chain}, nil)}, {want.KeyPath, key}, {want.CertificateChainPath, chain},
	} {
		if file.path != "" {
			c.add(file.path, file.content, &mode, user)
		}
	}
	return nil
}
