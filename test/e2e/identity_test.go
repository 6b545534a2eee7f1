// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/tombolo-dev/tombolo/test/chart"
)

// certificateLife is how long certificates live that the cluster of the end-to-end tests signs. The signer dates them five
// minutes back, and they are renewed when 70 to 90 percent are over: within 78 seconds, and 42 before they expire.
const certificateLife = 2 * time.Minute

// TestNodeGetsItsIdentityFromTheCluster: a node that begins with a service account, and with the rights of the chart's
// service account, gets its own identity and keeps it; with that identity pods are run with all that they refer to.
func TestNodeGetsItsIdentityFromTheCluster(t *testing.T) {
	t.Parallel()
	s := require(t).newSite("newcomer")
	s.bootstrap = true
	s.startFor(t)
	k := on(t, s)
	k.objects("settings", "v1")
	pod := k.awaitPodReady(k.create(k.pod("guest", `test "$(cat /config/a)" = "$(cat /secret/a)" && test -s /both/token && echo fine && while :; do sleep 1; done`,
		volumes(map[string]v1.VolumeSource{
			"config": {ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}},
			"secret": {Secret: &v1.SecretVolumeSource{SecretName: "settings"}}, "both": tokenVolume("settings"),
		}))))
	first := s.clientSerial(t)
	uses := func(what string) {
		t.Helper()
		eventually(t, usual, what+": logs and exec", func() error {
			s.approveServing(t)
			out, err := k.tryKubectl(nil, "logs", pod.Name)
			if err != nil || !strings.Contains(out, "fine") {
				return fmt.Errorf("the log is %q (%w)", out, err)
			}
			out, err = k.tryKubectl(nil, "exec", pod.Name, "--", "cat", "/config/a")
			if err != nil || !strings.Contains(out, "v1") {
				return fmt.Errorf("the command says %q (%w)", out, err)
			}
			return nil
		})
	}

	t.Run("who asks", func(t *testing.T) {
		var requesters []string
		for _, r := range s.requests(t, "client") {
			requesters = append(requesters, r.Spec.Username)
		}
		if account := "system:serviceaccount:" + s.account + ":" + s.serviceAccount; !slices.Contains(requesters, account) {
			t.Errorf("certificates were asked for by %q, want %s first", requesters, account)
		}
		// What the API server saw: the service account asks for certificates and does nothing else.
		node, err := k.client().CoreV1().Nodes().Get(k.Context(), s.name, metav1.GetOptions{})
		must(t, err)
		for _, f := range node.ManagedFields {
			if strings.Contains(f.Manager, "serviceaccount") {
				t.Errorf("the node was written by %s", f.Manager)
			}
		}
	})

	t.Run("serving certificate", func(t *testing.T) {
		var request string
		eventually(t, usual, "a request for a serving certificate that waits", func() error {
			requests := s.requests(t, "serving")
			if len(requests) == 0 {
				return errNotYet
			}
			request = requests[len(requests)-1].Name
			return nil
		})
		s.awaitLog(t, "kubectl certificate approve "+request)
		eventually(t, usual, "an event of the node", func() error {
			events, err := k.client().CoreV1().Events(v1.NamespaceDefault).List(k.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + s.name})
			must(t, err)
			for _, e := range events.Items {
				if e.Reason == "CertificateWaiting" && strings.Contains(e.Message, request) {
					return nil
				}
			}
			return errNotYet
		})
		if err := s.verifyServing(k); err == nil {
			t.Error("the kubelet API has a certificate of the cluster's authority before anybody approved one")
		}
		k.kubectl("certificate", "approve", request)
		eventually(t, usual, "a serving certificate of the cluster's authority", func() error { return s.verifyServing(k) })
		uses("with a serving certificate") // the API server verifies it
	})

	t.Run("renewal", func(t *testing.T) {
		eventually(t, 3*certificateLife, "another client certificate", func() error {
			if s.clientSerial(t) == first {
				return errNotYet
			}
			return nil
		})
		var requesters []string
		eventually(t, usual, "a request by the node itself", func() error {
			for _, r := range s.requests(t, "client") {
				requesters = append(requesters, r.Spec.Username)
			}
			if !slices.Contains(requesters, "system:node:"+s.name) {
				return fmt.Errorf("asked by %q", requesters)
			}
			return nil
		})
		uses("after the renewal")
		k.awaitPodReady(k.create(k.pod("later", "exec sleep 1d", volumes(map[string]v1.VolumeSource{"token": tokenVolume("settings")}))))
		if got := len(s.running(t, pod.UID)); got != 1 {
			t.Errorf("%d containers of the first pod run, want the one", got)
		}
		select {
		case <-s.nodeProc.Done():
			t.Errorf("tombolo node ended: %v", s.nodeProc.Err())
		default:
		}
	})

	t.Run("restart", func(t *testing.T) {
		s.killNode(t)
		s.restartNode(t)
		must(t, s.awaitReady(t.Context()))
		uses("after a restart")
	})
}

// TestNodeSaysWhichRequestHasToBeApproved: without the right to be approved by itself, a node waits for somebody.
func TestNodeSaysWhichRequestHasToBeApproved(t *testing.T) {
	t.Parallel()
	e := require(t)
	s := &site{env: e, name: "petitioner", host: e.calm.host, bootstrap: true, unapproved: true}
	must(t, s.prepareNode(t.Context()))
	must(t, s.startNode())
	t.Cleanup(func() {
		if err := s.nodeProc.Kill(); err != nil {
			t.Error(err)
		}
		_ = e.cluster.Client().CoreV1().Nodes().Delete(context.Background(), s.name, metav1.DeleteOptions{})
		if t.Failed() {
			t.Logf("log of tombolo node: %s\n%s", s.nodeProc.LogFile(), s.nodeProc.LogTail(10))
		}
	})
	var request string
	eventually(t, usual, "a request that waits", func() error {
		requests := s.requests(t, "client")
		if len(requests) == 0 {
			return errNotYet
		}
		request = requests[0].Name
		return nil
	})
	remedy := "kubectl certificate approve " + request
	s.awaitLog(t, remedy)
	if code, body := s.probe(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, remedy) {
		t.Errorf("/readyz is %d %q, want 503 with the remedy", code, body)
	}
	if code, body := s.probe(t, "/healthz"); code != http.StatusOK {
		t.Errorf("/healthz is %d %q", code, body)
	}
	if _, err := e.cluster.Kubectl(t.Context(), "certificate", "approve", request); err != nil {
		t.Fatal(err)
	}
	eventually(t, usual, "a certificate", func() error {
		if code, body := s.probe(t, "/readyz"); code != http.StatusOK && strings.Contains(body, request) {
			return errors.New(body)
		}
		return nil
	})
	s.awaitLog(t, "system:node:"+s.name)
}

// awaitLog waits for a text in the log of tombolo node.
func (s *site) awaitLog(t *testing.T, text string) {
	t.Helper()
	eventually(t, usual, "the words "+text+" in the log of tombolo node", func() error {
		data, err := os.ReadFile(s.nodeProc.LogFile())
		if err == nil && !strings.Contains(string(data), text) {
			return errNotYet
		}
		return err
	})
}

// requests are the site's requests for certificates of one kind, oldest first.
func (s *site) requests(t *testing.T, kind string) []certificatesv1.CertificateSigningRequest {
	t.Helper()
	list, err := s.env.cluster.Client().CertificatesV1().CertificateSigningRequests().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	out := slices.DeleteFunc(list.Items, func(r certificatesv1.CertificateSigningRequest) bool {
		return !strings.HasPrefix(r.Name, "tombolo-"+s.name+"-"+kind+"-")
	})
	slices.SortFunc(out, func(a, b certificatesv1.CertificateSigningRequest) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return out
}

// approveServing approves the requests for serving certificates that wait, as an administrator or an approver would.
func (s *site) approveServing(t *testing.T) {
	t.Helper()
	for _, r := range s.requests(t, "serving") {
		if len(r.Status.Conditions) == 0 {
			_, err := s.env.cluster.Kubectl(t.Context(), "certificate", "approve", r.Name)
			must(t, err)
		}
	}
}

// clientSerial is the serial number of the client certificate that the node keeps.
func (s *site) clientSerial(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.certDir(), "client-current.pem"))
	must(t, err)
	block, _ := pem.Decode(data)
	cert, err := x509.ParseCertificate(block.Bytes)
	must(t, err)
	if cert.Subject.CommonName != "system:node:"+s.name || !slices.Equal(cert.Subject.Organization, []string{"system:nodes"}) {
		t.Errorf("the certificate is for %v", cert.Subject)
	}
	return cert.SerialNumber.String()
}

// verifyServing verifies the certificate of the kubelet API as an API server with --kubelet-certificate-authority does.
func (s *site) verifyServing(k *tester) error {
	ca, err := os.ReadFile(k.env.cluster.CAFile())
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	node, err := k.client().CoreV1().Nodes().Get(k.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	address := net.JoinHostPort(node.Status.Addresses[0].Address, fmt.Sprint(node.Status.DaemonEndpoints.KubeletEndpoint.Port))
	conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: pool}}).DialContext(k.Context(), "tcp", address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// probe asks the address of --metrics-address.
func (s *site) probe(t *testing.T, path string) (code int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.metricsAddress+path, nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(request)
	must(t, err)
	defer resp.Body.Close()
	data := make([]byte, 4096)
	n, _ := resp.Body.Read(data)
	return resp.StatusCode, string(data[:n])
}

func (s *site) certDir() string { return filepath.Join(s.env.cluster.StateDir(), "certs-"+s.name) }

// bootstrapFlags let the node begin with a service account that has the chart's rights.
func (s *site) bootstrapFlags(ctx context.Context) ([]string, error) {
	c := s.env.cluster
	s.account = "account-" + s.name
	if err := s.applyAccount(ctx); err != nil {
		return nil, err
	}
	token, err := c.Client().CoreV1().ServiceAccounts(s.account).CreateToken(ctx, s.serviceAccount, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	kubeconfig := filepath.Join(c.StateDir(), s.account+".yaml")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: c.Server(), CertificateAuthority: c.CAFile()}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"a": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "a"}},
		CurrentContext: "x",
	}, kubeconfig)
	if err != nil {
		return nil, err
	}
	port, err := c.FreePort()
	if err != nil {
		return nil, err
	}
	s.metricsAddress = fmt.Sprintf("%s:%d", c.Address(), port)
	return []string{
		"--bootstrap-kubeconfig", kubeconfig, "--cert-dir", s.certDir(), "--rotate-server-certificates", "--client-ca-from-cluster",
		"--metrics-address", s.metricsAddress,
	}, nil
}

// applyAccount makes the service account and the rights that it and the node need: those of the chart, and no others.
func (s *site) applyAccount(ctx context.Context) error {
	objects, err := s.env.render(ctx, chart.Release{Name: "shore", Namespace: s.account, Set: []string{
		"nodes[0].name=" + s.name, "nodes[0].link=tls://192.0.2.1:8470", "nodes[0].tls.existingSecret=link",
		fmt.Sprintf("identity.autoApprove=%v", !s.unapproved),
	}})
	if err != nil {
		return err
	}
	_, err = s.env.cluster.Client().CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.account}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	for _, o := range objects {
		if kind := o.GetKind(); kind == "ServiceAccount" {
			s.serviceAccount = o.GetName()
		} else if !strings.HasPrefix(o.GetAPIVersion(), "rbac.authorization.k8s.io/") {
			continue
		}
		if err := s.env.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}
