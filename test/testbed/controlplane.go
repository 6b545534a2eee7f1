// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Users of the control plane that have no built-in name.
const (
	kubeletClientUser = "kube-apiserver-kubelet-client"
	frontProxyUser    = "front-proxy-client"
)

// readyTimeout is how long a part may take to become ready. The API server takes 4 s on an idle machine.
const readyTimeout = 60 * time.Second

// controlPlane are the names of its processes in the order in which they have to be stopped.
func controlPlane() []string {
	return []string{"kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"}
}

func (c *Cluster) startControlPlane(ctx context.Context) error {
	etcdURL, err := c.startEtcd(ctx)
	if err != nil {
		return err
	}
	if err := c.startAPIServer(ctx, etcdURL); err != nil {
		return err
	}
	if err := c.startManagers(); err != nil {
		return err
	}
	if err := c.bindKubeletClient(ctx); err != nil {
		return err
	}
	return c.awaitDefaultServiceAccount(ctx)
}

func (c *Cluster) startEtcd(ctx context.Context) (url string, err error) {
	clientPort, err := freePort()
	if err != nil {
		return "", err
	}
	peerPort, err := freePort()
	if err != nil {
		return "", err
	}
	url = fmt.Sprintf("http://127.0.0.1:%d", clientPort)
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", peerPort)
	p, err := c.Run("etcd", c.Command(context.WithoutCancel(ctx), "etcd",
		"--name=testbed",
		"--data-dir="+filepath.Join(c.StateDir(), "etcd"),
		"--listen-client-urls="+url, "--advertise-client-urls="+url,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=testbed="+peerURL,
		// Nothing here has to survive the machine.
		"--unsafe-no-fsync",
		// Tests that write much come to its default before old versions are dropped.
		"--quota-backend-bytes=8589934592",
	))
	if err != nil {
		return "", err
	}
	return url, c.awaitHTTP(ctx, p, http.DefaultClient, url+"/readyz")
}

func (c *Cluster) startAPIServer(ctx context.Context, etcdURL string) error {
	serving, kubeletClient, account := c.pair("kube-apiserver"), c.pair("kubelet-client"), c.pair("service-account")
	frontProxy := c.pair("front-proxy")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(c.Server(), "https://"))
	if err != nil {
		return fmt.Errorf("starting kube-apiserver: %w", err)
	}
	address := c.Address().String()
	flags := []string{
		"--etcd-servers=" + etcdURL,
		// Only on the bridge: hosts and this machine reach it, the networks this machine is in do not.
		"--bind-address=" + address, "--advertise-address=" + address, "--secure-port=" + port,
		"--tls-cert-file=" + serving.cert, "--tls-private-key-file=" + serving.key, "--cert-dir=" + filepath.Join(c.StateDir(), "pki"),
		"--client-ca-file=" + c.CAFile(),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth", "--allow-privileged=true",
		"--service-cluster-ip-range=" + c.ServiceCIDR().String(),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + account.cert, "--service-account-signing-key-file=" + account.key,
		"--kubelet-client-certificate=" + kubeletClient.cert, "--kubelet-client-key=" + kubeletClient.key,
		"--kubelet-certificate-authority=" + c.CAFile(), "--kubelet-preferred-address-types=InternalIP,Hostname",
		"--requestheader-client-ca-file=" + c.pair("front-proxy-ca").cert, "--requestheader-allowed-names=" + frontProxyUser,
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + frontProxy.cert, "--proxy-client-key-file=" + frontProxy.key,
	}
	p, err := c.Run("kube-apiserver", c.Command(context.WithoutCancel(ctx), "kube-apiserver", append(flags, c.opts.APIServerFlags...)...))
	if err != nil {
		return err
	}
	client, err := c.httpClient()
	if err != nil {
		return err
	}
	return c.awaitHTTP(ctx, p, client, c.Server()+"/readyz")
}

// startManagers starts the controller manager and the scheduler. Both serve nothing: what they do shows that they work.
func (c *Cluster) startManagers() error {
	ca := c.pair("ca")
	arguments := map[string][]string{
		"kube-controller-manager": append([]string{
			"--use-service-account-credentials",
			"--root-ca-file=" + ca.cert, "--service-account-private-key-file=" + c.pair("service-account").key,
			"--cluster-signing-cert-file=" + ca.cert, "--cluster-signing-key-file=" + ca.key,
		}, c.opts.ControllerManagerFlags...),
		"kube-scheduler": nil,
	}
	for name, args := range arguments {
		kubeconfig, err := c.UserKubeconfig("system:" + name)
		if err != nil {
			return err
		}
		args = append(args, "--kubeconfig="+kubeconfig, "--leader-elect=false", "--secure-port=0")
		if _, err := c.Run(name, c.Command(context.Background(), name, args...)); err != nil {
			return err
		}
	}
	return nil
}

// bindKubeletClient lets the API server do what kubectl logs, exec and the like ask of it.
func (c *Cluster) bindKubeletClient(ctx context.Context) error {
	_, err := c.Client().RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "tombolo-testbed:kubelet-client"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kubelet-api-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: kubeletClientUser}},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("letting the API server call kubelets: %w", err)
	}
	return nil
}

// awaitDefaultServiceAccount waits for the controller manager's first visible work, without which no pod can be created.
func (c *Cluster) awaitDefaultServiceAccount(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var err error
	if poll(ctx, func() bool {
		_, err = c.Client().CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err == nil
	}) != nil {
		log := filepath.Join(c.LogDir(), "kube-controller-manager.log")
		return fmt.Errorf("kube-controller-manager did not make the default service account in %s (%w), log: %s, last lines:\n%s",
			readyTimeout, err, log, tail(log, 15))
	}
	return nil
}

// awaitHTTP waits until url answers 200, but not longer than the process lives.
func (c *Cluster) awaitHTTP(ctx context.Context, p *Process, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	var last error
	err := poll(ctx, func() bool {
		last = ask(ctx, client, url)
		return last == nil || !p.record.alive()
	})
	switch {
	case err == nil && last == nil:
		return nil
	case err == nil:
		<-p.Done()
		return p.failure(fmt.Sprintf("ended before it was ready (%v)", p.Err()))
	default:
		return p.failure(fmt.Sprintf("did not become ready in %s (%s: %v)", readyTimeout, url, last))
	}
}

// ask returns nil if the URL answers 200.
func ask(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	return nil
}

// Ports are taken from below those that the kernel gives to connections: one of those may be in use by the time it is listened on.
const (
	firstPort = 12000
	lastPort  = 32000
)

// portsTaken counts the ports given out, so that no two callers get the same. Each process begins somewhere else.
var portsTaken = func() *atomic.Uint32 {
	var n atomic.Uint32
	n.Store(rand.Uint32N(lastPort - firstPort)) //nolint:gosec // it protects nothing
	return &n
}()

// freePort returns a TCP port on which nothing listens at any address.
func freePort() (int, error) {
	var err error
	for range lastPort - firstPort {
		port := firstPort + int(portsTaken.Add(1)%(lastPort-firstPort))
		var l net.Listener
		if l, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", fmt.Sprintf(":%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("looking for a free port: %w", err)
}
