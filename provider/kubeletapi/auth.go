// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"fmt"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
)

const (
	// tokenCacheTTL is the kubelet's default authentication.webhook.cacheTTL.
	tokenCacheTTL = 2 * time.Minute
	// allowCacheTTL and denyCacheTTL are the kubelet's defaults of authorization.webhook.cacheAuthorizedTTL and
	// cacheUnauthorizedTTL.
	allowCacheTTL = 5 * time.Minute
	denyCacheTTL  = 30 * time.Second
	// reviewTimeout bounds one TokenReview.
	reviewTimeout = 10 * time.Second
)

// reviewBackoff is how reviews are repeated while the API server does not answer, as the kubelet does it: five tries
// within about seven seconds.
func reviewBackoff() *wait.Backoff {
	return &wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}
}

// access says what a caller must be allowed to do. The resource is always "nodes" and the name that of the node.
type access struct {
	// verb is "" when it follows from the request's method.
	verb string
	// subresources are alternatives: being allowed one of them is enough.
	subresources []string
}

var (
	proxyAccess   = access{subresources: []string{"proxy"}}
	podsAccess    = access{subresources: []string{"pods", "proxy"}}
	healthzAccess = access{subresources: []string{"healthz", "proxy"}}
	metricsAccess = access{subresources: []string{"metrics"}}
	// enterAccess guards exec, attach and portForward. They are authorised as "create" whatever the method is: a
	// WebSocket begins with a GET, and the right to read must not be enough to run commands in every pod of the node.
	enterAccess = access{verb: "create", subresources: []string{"proxy"}}
)

// attributes returns the alternatives of a as questions to the authoriser, none if the method has no verb.
func (a access) attributes(u user.Info, node string, r *http.Request) []authorizer.AttributesRecord {
	verb := a.verb
	if verb == "" {
		verb = verbOf(r.Method)
	}
	if verb == "" {
		return nil
	}
	out := make([]authorizer.AttributesRecord, 0, len(a.subresources))
	for _, sub := range a.subresources {
		out = append(out, authorizer.AttributesRecord{
			User: u, Verb: verb, APIVersion: "v1", Resource: "nodes", Subresource: sub, Name: node,
			ResourceRequest: true, Path: r.URL.Path,
		})
	}
	return out
}

// verbOf maps a method to the API's verb, "" if it has none.
func verbOf(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return "get"
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	default:
		return ""
	}
}

// auth answers who a caller is and whether it may.
type auth struct {
	authenticator.Request
	authorizer.UnconditionalAuthorizer
}

// newAuth delegates both questions to the cluster. clientCA may be nil: then certificates say nothing about a caller.
func newAuth(reviews Reviewer, clientCA dynamiccertificates.CAContentProvider) (auth, error) {
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		// Anonymous is left nil: a caller without credentials is refused.
		TokenAccessReviewClient:            reviews.AuthenticationV1(),
		TokenAccessReviewTimeout:           reviewTimeout,
		WebhookRetryBackoff:                reviewBackoff(),
		CacheTTL:                           tokenCacheTTL,
		ClientCertificateCAContentProvider: clientCA,
	}.New()
	if err != nil {
		return auth{}, fmt.Errorf("setting up authentication of the kubelet API: %w", err)
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: reviews.AuthorizationV1(),
		AllowCacheTTL:             allowCacheTTL,
		DenyCacheTTL:              denyCacheTTL,
		WebhookRetryBackoff:       reviewBackoff(),
	}.New()
	if err != nil {
		return auth{}, fmt.Errorf("setting up authorisation of the kubelet API: %w", err)
	}
	return auth{authn, authz}, nil
}

// authenticate returns the caller, or nil after it has answered the request.
func (s *Server) authenticate(w http.ResponseWriter, r *http.Request) user.Info {
	resp, ok, err := s.auth.AuthenticateRequest(r)
	if err == nil && ok {
		return resp.User
	}
	reason := "no credentials"
	if err != nil {
		reason = err.Error()
	}
	s.log.Info("Refused an unauthenticated request", "remote", r.RemoteAddr, "path", r.URL.Path, "reason", reason)
	writeText(w, http.StatusUnauthorized, "Unauthorized")
	return nil
}

// authorise says whether the caller may, and has answered the request if not.
func (s *Server) authorise(w http.ResponseWriter, r *http.Request, caller user.Info, need access) bool {
	questions := need.attributes(caller, s.o.NodeName, r)
	if len(questions) == 0 {
		writeText(w, http.StatusForbidden, "Authorization error: could not determine attributes for request")
		return false
	}
	var asked []string
	for _, question := range questions {
		decision, _, err := s.auth.Authorize(r.Context(), question)
		if err != nil {
			s.log.Error("Asking the API server for authorisation failed", "user", caller.GetName(), "verb", question.Verb,
				"subresource", question.Subresource, "err", err)
			writeText(w, http.StatusInternalServerError, fmt.Sprintf(
				"Authorization error (user=%s, verb=%s, resource=%s, subresource=%s)",
				caller.GetName(), question.Verb, question.Resource, question.Subresource))
			return false
		}
		if decision == authorizer.DecisionAllow {
			return true
		}
		asked = append(asked, question.Subresource)
	}
	s.log.Info("Refused a forbidden request", "user", caller.GetName(), "verb", questions[0].Verb, "subresources", asked,
		"path", r.URL.Path)
	writeText(w, http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=%s, subresource(s)=%v)\n",
		caller.GetName(), questions[0].Verb, questions[0].Resource, asked))
	return false
}
