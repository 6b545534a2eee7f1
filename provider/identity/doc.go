// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity gets a node its certificates from the cluster: the client certificate of system:node:<name>, by which
// the Node authorizer confines the node to what its own pods refer to, and, if wanted, a serving certificate for the kubelet
// API. Both are asked for by CertificateSigningRequests and renewed when 70 to 90 percent of their time is over.
//
// A Client begins with somebody else's credentials, such as those of a service account, which need no other right than to
// make such requests. They are used while there is no valid certificate and for nothing else. A Serving asks as the node.
//
// Requests, keys and renewal are client-go's certificate manager. What is added here: a request that waits for somebody is
// named with the command that approves it, stays the same one until it is answered, however long that takes, and is not
// repeated every few seconds after it was denied; and a renewed certificate is used by new connections at once, while those
// that are open end by themselves.
//
// It must not know what the node does with the API. Private keys appear in no log, event or metric.
//
// # Concurrency
//
// Run of a Client or a Serving owns its goroutines, except those of client-go's manager, which are told to stop but cannot
// be joined. Everything else may be called by any number of goroutines.
package identity
