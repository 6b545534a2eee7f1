// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package objects reads what the pods of a node refer to: ConfigMaps, Secrets, Services and tokens of service accounts. It
// asks for no more than the Node authorizer gives a node: each ConfigMap and each Secret is listed and watched by its own
// name, from the first read for a pod until the last pod that read it is forgotten; tokens are bound to their pod. Services and
// ClusterTrustBundles are public and read as a whole, the latter only once a pod wants one; so are the PodCertificateRequests of the node.
//
// What was read is kept, so that pods start and volumes stay whole while the API is away. That an object does not exist is
// said only if the API said so; a list that failed says nothing.
//
// It must not know what an object is good for, except that one which a volume shows is followed for the pod's whole life,
// while one that only a start needs is no longer watched when nobody has read it for a while. It writes nothing but
// requests for tokens and certificates, and it tells nobody what is in a Secret, a token or a key.
//
// # Concurrency
//
// Objects may be used by any number of goroutines. Run owns every goroutine, one for each watch and a few for the rest, and
// joins them. A read waits for the first answer of the API for a bounded time and later not at all. The callback
// Options.Changed is called without a lock held and must not block. Objects that were read are shared and must not be
// changed.
package objects
