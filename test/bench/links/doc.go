// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

// Command links measures what one connection for everything costs: how long small calls take on a link that a log or a forwarded port
// fills at the same time, compared with the same link when nothing else is on it. The link is shaped, as one over the internet: it has a
// rate, a delay and a router in the middle that keeps some bytes back before it lets the sender wait.
//
// Both ends are the product's, in one process; what they serve is made up. It never judges: there is no ratio at which it fails.
//
// # Concurrency
//
// One call is under way at a time, beside at most one stream. A relay has two goroutines per connection, which end with it.
package main
