// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pki makes the certificates with which a node and a host know each other: one authority per installation, one
// certificate per host that names the addresses it is reached by and can only serve, and one per node that can only
// call. It is for people without a certificate authority of their own; the link takes any certificates of that shape.
//
// It must not know who uses the certificates, or how they are distributed. Keys are ECDSA P-256 and are written
// unencrypted with mode 0600.
//
// # Concurrency
//
// An Authority is immutable and may be shared. Two stores must not write to one directory at the same time.
package pki
