// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/tombolo-dev/tombolo/provider/apierr"
)

// requestTimeout bounds each request to the API.
const requestTimeout = 10 * time.Second

// Source is an identity towards the API.
type Source struct {
	// What says where it comes from, such as the flag and file.
	What   string
	Config *rest.Config
	// Err is why there is no Config.
	Err error
	// Node says that it is to be the node itself, rather than one that asks for the node's identity.
	Node bool
}

// observe asks the API who the source is and what it may do.
func (s Source) observe(ctx context.Context, o Options) Identity {
	id := Identity{Source: s.What, Node: s.Node, Err: s.Err}
	if s.Err != nil {
		return id
	}
	config := rest.CopyConfig(s.Config)
	config.Timeout, config.QPS, config.UserAgent = requestTimeout, -1, "tombolo-check/"+o.Host.Version
	id.Server = config.Host
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		id.Err = err
		return id
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		id.Err = apierr.Classify(err)
		return id
	}
	id.User = review.Status.UserInfo.Username
	if version, err := client.Discovery().ServerVersion(); err == nil {
		id.ServerVersion = version.GitVersion
	}
	rights := AskerRights()
	if s.Node {
		node := o.Node
		if node == "" {
			node = strings.TrimPrefix(id.User, nodeUser)
		}
		rights = NodeRights(node, o.ClientCAFromCluster)
	}
	for _, right := range rights {
		allowed, err := ask(ctx, client.AuthorizationV1().SelfSubjectAccessReviews(), right, id.User)
		id.Answers = append(id.Answers, Answer{Right: right, Allowed: allowed, Err: err})
	}
	return id
}

// ask asks the API whether who asks has a right.
func ask(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface, r Right, user string) (bool, error) {
	attributes := &authorizationv1.ResourceAttributes{
		Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
	}
	if key, value := r.selector(user); key != "" {
		attributes.FieldSelector = &authorizationv1.FieldSelectorAttributes{Requirements: []metav1.FieldSelectorRequirement{
			{Key: key, Operator: metav1.FieldSelectorOpIn, Values: []string{value}},
		}}
	}
	review, err := reviews.Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, apierr.Classify(err)
	}
	return review.Status.Allowed, nil
}

// certificates are those with which the source shows who it is.
func (s Source) certificates() []Certificate {
	if s.Err != nil {
		return nil
	}
	config := rest.CopyConfig(s.Config)
	if err := rest.LoadTLSFiles(config); err != nil || len(config.CertData) == 0 {
		return nil // no certificate, or one whose file is missing, which the API server is not reached with
	}
	remedy := "give a kubeconfig with another one"
	if !s.Node {
		remedy = "give another bootstrap kubeconfig"
	}
	return parse("the client certificate of "+s.What, config.CertData, false, remedy)
}
