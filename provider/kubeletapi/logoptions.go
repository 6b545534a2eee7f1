// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeletapi

import (
	"net/http"
	"net/url"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/tombolo-dev/tombolo/host"
)

// parseLogOptions reads the query of a log request, with the API's own rules for what is true. Its error is answered
// with 400 if a value cannot be read and with 422 if it makes no sense.
func parseLogOptions(query url.Values) (*v1.PodLogOptions, error) {
	o := &v1.PodLogOptions{}
	for name, target := range map[string]*bool{
		"follow": &o.Follow, "previous": &o.Previous, "timestamps": &o.Timestamps,
	} {
		values := query[name]
		if err := runtime.Convert_Slice_string_To_bool(&values, target, nil); err != nil {
			return nil, undecodable(name, values[0], err)
		}
	}
	for _, number := range []struct {
		name   string
		values []string
		target **int64
	}{
		{"tailLines", tailValues(query), &o.TailLines},
		{"limitBytes", query["limitBytes"], &o.LimitBytes},
		{"sinceSeconds", query["sinceSeconds"], &o.SinceSeconds},
	} {
		if err := runtime.Convert_Slice_string_To_Pointer_int64(&number.values, number.target, nil); err != nil {
			return nil, undecodable(number.name, number.values[0], err)
		}
	}
	if values := query["sinceTime"]; len(values) > 0 {
		if err := metav1.Convert_Slice_string_To_Pointer_v1_Time(&values, &o.SinceTime, nil); err != nil {
			return nil, undecodable("sinceTime", values[0], err)
		}
	}
	if values := query["stream"]; len(values) > 0 {
		o.Stream = &values[0]
	}
	return o, validateLogOptions(o)
}

// tailValues honours the kubelet's old name of tailLines, whose value "all" means no limit.
func tailValues(query url.Values) []string {
	switch tail := query.Get("tail"); tail {
	case "":
		return query["tailLines"]
	case "all":
		return nil
	default:
		return []string{tail}
	}
}

func undecodable(name, value string, err error) error {
	return statusErrorf(http.StatusBadRequest, "unable to decode query: %s=%q: %v", name, value, err)
}

// validateLogOptions holds the API's rules.
func validateLogOptions(o *v1.PodLogOptions) error {
	var problems field.ErrorList
	if o.TailLines != nil && *o.TailLines < 0 {
		problems = append(problems, field.Invalid(field.NewPath("tailLines"), *o.TailLines, "must be 0 or greater"))
	}
	if o.LimitBytes != nil && *o.LimitBytes < 1 {
		problems = append(problems, field.Invalid(field.NewPath("limitBytes"), *o.LimitBytes, "must be 1 or greater"))
	}
	switch {
	case o.SinceSeconds == nil:
	case o.SinceTime != nil:
		problems = append(problems, field.Forbidden(field.NewPath("sinceTime"), "give sinceTime or sinceSeconds, not both"))
	case *o.SinceSeconds < 1:
		problems = append(problems, field.Invalid(field.NewPath("sinceSeconds"), *o.SinceSeconds, "must be 1 or greater"))
	}
	if len(problems) > 0 {
		return statusErrorf(http.StatusUnprocessableEntity, "invalid request: %v", problems.ToAggregate())
	}
	if o.Stream != nil && *o.Stream != v1.LogStreamAll {
		// As a kubelet answers whose feature gate PodLogsQuerySplitStreams has its default.
		return statusErrorf(http.StatusBadRequest,
			"unable to return the given log stream: %q; only %q is supported", *o.Stream, v1.LogStreamAll)
	}
	return nil
}

// logRequest translates the options. now is the host's present time.
func logRequest(o *v1.PodLogOptions, path, containerID string, now time.Time) host.LogRequest {
	req := host.LogRequest{
		Path: path, ContainerID: containerID, Follow: o.Follow, Timestamps: o.Timestamps, TailLines: -1, LimitBytes: -1,
	}
	if o.TailLines != nil {
		req.TailLines = *o.TailLines
	}
	if o.LimitBytes != nil {
		req.LimitBytes = *o.LimitBytes
	}
	if o.SinceSeconds != nil {
		req.Since = now.Add(-seconds(*o.SinceSeconds))
	}
	if o.SinceTime != nil {
		req.Since = o.SinceTime.Time
	}
	return req
}

// seconds converts without overflow: what does not fit is as long as can be.
func seconds(n int64) time.Duration {
	const most = int64(1<<63-1) / int64(time.Second)
	return time.Duration(min(n, most)) * time.Second
}
