// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const adminUser = "admin"

// Kubeconfig is the path of a kubeconfig whose user may do everything.
func (c *Cluster) Kubeconfig() string {
	return filepath.Join(c.StateDir(), "kubeconfig", adminUser+".yaml")
}

// RESTConfig returns a new client configuration of the user who may do everything, without a limit on requests.
func (c *Cluster) RESTConfig() *rest.Config {
	admin := c.pair("client-" + adminUser)
	return &rest.Config{
		Host:            c.Server(),
		TLSClientConfig: rest.TLSClientConfig{CAFile: c.CAFile(), CertFile: admin.cert, KeyFile: admin.key},
		QPS:             -1,
	}
}

// Client returns a client of the user who may do everything. Connections are shared between clients.
func (c *Cluster) Client() kubernetes.Interface {
	// The configuration is made of constants and files that Start wrote: an error is one of this package.
	return kubernetes.NewForConfigOrDie(c.RESTConfig())
}

func (c *Cluster) httpClient() (*http.Client, error) {
	client, err := rest.HTTPClientFor(c.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("making an API client: %w", err)
	}
	return client, nil
}

// KubectlCommand returns a kubectl command of the user who may do everything.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	cmd := c.Command(ctx, "kubectl", args...)
	// Without the second, discovery results end in the caller's home.
	cmd.Env = append(cmd.Env, "KUBECONFIG="+c.Kubeconfig(), "KUBECACHEDIR="+filepath.Join(c.StateDir(), "kubectl-cache"))
	return cmd
}

// Kubectl runs kubectl and returns what it wrote to standard output; the error has what it wrote to standard error.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return output(c.KubectlCommand(ctx, args...))
}

// output runs a command and returns its standard output; the error has the command line and its standard error.
func output(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		line := strings.Join(append([]string{filepath.Base(cmd.Args[0])}, cmd.Args[1:]...), " ")
		return stdout.String(), fmt.Errorf("%s: %w: %s", line, err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
