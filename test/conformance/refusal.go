// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"regexp"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// reasonUnsupported is the status reason of a pod that was refused for fields Tombolo does not support.
const reasonUnsupported = "UnsupportedPodSpec"

// refusedField is one field in the message of such a pod, which goes on with a note in parentheses.
var refusedField = regexp.MustCompile(`((?:spec|metadata)(?:\.[A-Za-z]+(?:\[[^\]]*\])*)+) \(`)

// index is the place in a list, which says nothing about the field.
var listIndex = regexp.MustCompile(`\[[^\]]*\]`)

// refusedFields returns the fields that a message names, without their places in lists.
func refusedFields(message string) []string {
	var fields []string
	for _, match := range refusedField.FindAllStringSubmatch(message, -1) {
		fields = append(fields, listIndex.ReplaceAllString(match[1], "[]"))
	}
	return distinct(fields)
}

// distinct sorts the list and drops what is there twice.
func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// refusals remember which pods were refused, also after those are gone. Safe for concurrent use.
type refusals struct {
	mu          sync.Mutex
	byNamespace map[string][]string
}

// watchRefusals watches all pods until ctx ends; wait returns after that, when nothing runs any more.
func watchRefusals(ctx context.Context, client kubernetes.Interface) (seen *refusals, wait func(), err error) {
	seen = &refusals{byNamespace: map[string][]string{}}
	factory := informers.NewSharedInformerFactory(client, 0)
	informer := factory.Core().V1().Pods().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    seen.add,
		UpdateFunc: func(_, pod any) { seen.add(pod) },
	})
	if err != nil {
		return nil, nil, err
	}
	factory.StartWithContext(ctx)
	return seen, factory.Shutdown, nil
}

func (r *refusals) add(object any) {
	pod, ok := object.(*v1.Pod)
	if !ok || pod.Status.Reason != reasonUnsupported {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byNamespace[pod.Namespace] = distinct(append(r.byNamespace[pod.Namespace], refusedFields(pod.Status.Message)...))
}

// fields returns the refused fields by namespace.
func (r *refusals) fields() map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string][]string, len(r.byNamespace))
	for namespace, fields := range r.byNamespace {
		all[namespace] = slices.Clone(fields)
	}
	return all
}
