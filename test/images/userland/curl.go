// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// curlOptions are the options of curl that tests use, by curl's names.
type curlOptions struct {
	method         string
	headers        []string
	output         string
	writeOut       string
	head           bool
	include        bool
	insecure       bool
	fail           bool
	maxTime        float64 // seconds
	connectTimeout float64 // seconds
}

func (o *curlOptions) flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("curl", pflag.ContinueOnError)
	fs.StringVarP(&o.method, "request", "X", "", "method")
	fs.StringArrayVarP(&o.headers, "header", "H", nil, "name: value")
	fs.StringVarP(&o.output, "output", "o", "", "file for the answer")
	fs.StringVarP(&o.writeOut, "write-out", "w", "", "what to print at the end; %{http_code} is known")
	fs.BoolVarP(&o.head, "head", "I", false, "ask for headers only and show them")
	fs.BoolVarP(&o.include, "include", "i", false, "show headers too")
	fs.BoolVarP(&o.insecure, "insecure", "k", false, "accept any certificate")
	fs.BoolVarP(&o.fail, "fail", "f", false, "fail on a status of 400 and above")
	fs.Float64VarP(&o.maxTime, "max-time", "m", 0, "seconds for everything")
	fs.Float64Var(&o.connectTimeout, "connect-timeout", 0, "seconds to connect")
	for _, quiet := range []struct{ name, short string }{
		{"silent", "s"}, {"show-error", "S"}, {"globoff", "g"}, {"disable", "q"},
	} {
		fs.BoolP(quiet.name, quiet.short, false, "taken for granted")
	}
	return fs
}

// curl asks for one URL.
func curl(args []string, stdout io.Writer) error {
	var o curlOptions
	fs := o.flags()
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() != 1 {
		return fmt.Errorf("%d URLs given, want one", fs.NArg())
	}
	response, err := o.ask(fs.Arg(0))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := o.show(response, stdout); err != nil {
		return err
	}
	if o.fail && response.StatusCode >= http.StatusBadRequest {
		return errors.New(response.Status)
	}
	return nil
}

func (o *curlOptions) ask(url string) (*http.Response, error) {
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	method := o.method
	if method == "" && o.head {
		method = http.MethodHead
	}
	request, err := http.NewRequest(method, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "curl/8.0.0")
	for _, h := range o.headers {
		name, value, _ := strings.Cut(h, ":")
		request.Header.Add(name, strings.TrimSpace(value))
	}
	client := &http.Client{
		Timeout: seconds(o.maxTime),
		Transport: &http.Transport{
			DialContext:     (&net.Dialer{Timeout: seconds(o.connectTimeout)}).DialContext,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: o.insecure}, //nolint:gosec // that is what -k asks for
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return client.Do(request)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// show writes what the options ask for.
func (o *curlOptions) show(response *http.Response, stdout io.Writer) error {
	out := stdout
	if o.output != "" {
		f, err := os.Create(o.output)
		if err != nil {
			return err
		}
		defer f.Close()
		out = f
	}
	if o.head || o.include {
		fmt.Fprintf(out, "%s %s\r\n", response.Proto, response.Status)
		if err := response.Header.Write(out); err != nil {
			return err
		}
		fmt.Fprint(out, "\r\n")
	}
	if _, err := io.Copy(out, response.Body); err != nil {
		return err
	}
	_, err := io.WriteString(stdout, strings.ReplaceAll(o.writeOut, "%{http_code}", strconv.Itoa(response.StatusCode)))
	return err
}
