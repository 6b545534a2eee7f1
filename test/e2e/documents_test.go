// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tombolo-dev/tombolo/test/docs"
)

// The documents that the first hour leads to.
const (
	checkGuide   = "docs/check.md"
	cliGuide     = "docs/cli.md"
	chartGuide   = "charts/tombolo/README.md"
	helmGuide    = "docs/install-helm.md"
	policyGuide  = "docs/host-policy.md"
	reverseGuide = "docs/link-reverse.md"
	sshGuide     = "docs/link-ssh.md"
)

// fromFirstHour are files that the first hour left where the node runs.
func (g *guide) fromFirstHour(names ...string) (paths []string) {
	for _, name := range names {
		paths = append(paths, filepath.Join(g.desk.workDir(readme), name))
	}
	return paths
}

// asker are the files of who asks for the node's identity, "as in the README".
func (g *guide) asker() []string { return g.fromFirstHour("bootstrap.kubeconfig", "cluster-ca.crt") }

// setting returns what a document shows as a file with a text in it.
func (g *guide) setting(document, text string) string {
	g.Helper()
	all, err := docs.All(repository)
	must(g.T, err)
	for _, b := range all {
		if b.File == document && b.Language == "yaml" && strings.Contains(b.Text, text) {
			return b.Text
		}
	}
	g.Fatalf("%s shows no file with %q", document, text)
	return ""
}

// install writes a file of a machine, outside the working directory.
func (g *guide) install(at *place, path, content string) {
	g.Helper()
	temporary := filepath.Join(g.TempDir(), filepath.Base(path))
	must(g.T, os.WriteFile(temporary, []byte(content), 0o600))
	_, err := at.host.Exec(g.Context(), "install", "-D", "-m", "600", temporary, path)
	must(g.T, err)
}

// read returns the content of a file.
func (g *guide) read(path string) string {
	g.Helper()
	data, err := os.ReadFile(path)
	must(g.T, err)
	return string(data)
}

// check runs a block that ends with tombolo check. Whether the machine's disk and its control groups are fine is left to the machine.
func (g *guide) check(at *place, block string) string {
	g.Helper()
	out, err := at.command(g.Context(), asScript, block).CombinedOutput()
	g.Logf("%s\n%s", prompted(block), out)
	if exit, found := errors.AsType[*exec.ExitError](err); err != nil && (!found || exit.ExitCode() != 3) {
		g.Fatal(err)
	}
	return string(out)
}

// checkedUnderPolicy starts the host of the first hour with a policy, and checks it on both sides.
func checkedUnderPolicy(g *guide) {
	g.carry(g.edge, g.fromFirstHour("tombolo-pki/ca.crt", "tombolo-pki/host-edge-1.crt", "tombolo-pki/host-edge-1.key")...)
	g.carry(g.desk, g.fromFirstHour("tombolo-pki/ca.crt", "tombolo-pki/node-edge-1.crt", "tombolo-pki/node-edge-1.key")...)
	g.install(g.edge, "/etc/tombolo/policy.yaml", g.setting(policyGuide, "kind: HostPolicy"))
	host := g.start(g.edge, "tombolo-host", g.block(policyGuide, "tombolo host --policy"))
	awaitLog(g.T, host, "serving")
	for _, out := range []string{
		g.check(g.edge, g.block(checkGuide, "tombolo check unix://")),
		g.check(g.desk, g.block(checkGuide, "tombolo check tls://")),
	} {
		g.fine(out)
	}
}

// fine fails the test unless tombolo check found what does not depend on the machine to be fine.
func (g *guide) fine(out string) {
	g.Helper()
	for _, name := range machineChecks {
		if !strings.Contains("\n"+out, "\nok       "+name+" ") {
			g.Errorf("%s is not ok in:\n%s", name, out)
		}
	}
}

// behindNAT has the machine connect to the node, with certificates and then by a token.
func behindNAT(g *guide) {
	keys := g.desk.file("tombolo-pki")
	g.run(g.desk, g.block(reverseGuide, "tombolo pki init"))
	g.carry(g.edge, filepath.Join(keys, "ca.crt"), filepath.Join(keys, "host-edge-1.crt"), filepath.Join(keys, "host-edge-1.key"))
	g.carry(g.desk, append(g.asker(), filepath.Join(keys, "ca.crt"), filepath.Join(keys, "node-edge-1.crt"), filepath.Join(keys, "node-edge-1.key"))...)
	g.startNode(g.block(reverseGuide, "tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --host reverse://"))
	host := g.start(g.edge, "tombolo-host", g.block(reverseGuide, "tombolo host --connect"))
	must(g.T, g.node.awaitReady(g.Context()))
	must(g.T, g.node.nodeProc.Kill())
	must(g.T, host.Kill())

	g.open(reverseGuide + " by a token")
	g.carry(g.desk, g.asker()...)
	g.startNode(g.block(reverseGuide, "tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --join-dir"))
	printed := g.retried(g.desk, g.block(reverseGuide, "tombolo token create"))
	join := g.replaced(g.block(reverseGuide, "tombolo host join"), "tombolo host join tombolo1.….….…@"+deskName+":8470", strings.TrimSpace(printed))
	g.start(g.edge, "tombolo-host", join)
	must(g.T, g.node.awaitReady(g.Context()))
}

// sshSetup makes the machine one with an SSH server as it is installed, and a user edge.
const sshSetup = `set -e
mkdir -p /run/sshd /etc/sudoers.d
rm -f /etc/ssh/ssh_host_*
ssh-keygen -q -t ed25519 -N "" -f /etc/ssh/ssh_host_ed25519_key
usermod --password '*' root
useradd --create-home --home-dir /var/lib/edge --password '*' edge
echo "127.0.1.1 $(hostname)" >> /etc/hosts
`

// overSSH makes the machine a node by its SSH server, with flags and then with a file of settings.
func overSSH(g *guide) {
	_, err := g.edge.host.Exec(g.Context(), "sh", "-c", sshSetup)
	must(g.T, err)
	server := g.start(g.edge, "sshd", "/usr/sbin/sshd -D -e -f /dev/null -o PidFile=none -o UsePAM=no")
	awaitLog(g.T, server, "Server listening")
	learnt := g.run(g.desk, g.block(sshGuide, "ssh-keygen -t ed25519"))
	shown := g.run(g.edge, g.block(sshGuide, "ssh-keygen -lf /etc/ssh"))
	if fingerprint := strings.Fields(shown)[1]; !strings.Contains(learnt, " "+fingerprint+" "+edgeAddress) {
		g.Errorf("the host says it has %s, and at the other end %s was learnt", fingerprint, learnt)
	}
	g.carry(g.edge, g.desk.file("tombolo-ssh.pub"))
	g.run(g.edge, g.block(sshGuide, "mkdir -p -m 700 /root/.ssh"))
	g.run(g.edge, g.block(sshGuide, "echo 'edge ALL"))
	if id := g.run(g.edge, "runuser -u edge -- sudo -n id -un"); id != "root\n" {
		g.Errorf("edge becomes %q", id)
	}
	g.carry(g.desk, g.asker()...)
	g.startNode(g.block(sshGuide, "tombolo node --name edge-1"))
	must(g.T, g.node.awaitReady(g.Context()))
	must(g.T, g.node.nodeProc.Kill())
	withSettings(g)
}

// withSettings has the node of overSSH read its settings from a file, and checks them.
func withSettings(g *guide) {
	key, known := g.read(g.desk.file("tombolo-ssh")), g.read(g.desk.file("known_hosts"))
	g.open(cliGuide)
	g.run(g.desk, g.block(cliGuide, "tombolo config default node"))
	g.says(g.read(g.desk.file("node.yaml")), "kind: NodeConfig", "clusterDomain")
	settings := g.setting(cliGuide, "kind: NodeConfig")
	must(g.T, os.WriteFile(g.desk.file("node.yaml"), []byte(settings), 0o600))
	asker := g.asker()
	for path, content := range map[string]string{
		"id_ed25519": key, "known_hosts": known, "bootstrap.kubeconfig": g.read(asker[0]), "cluster-ca.crt": g.read(asker[1]), "node.yaml": settings,
	} {
		g.install(g.desk, filepath.Join("/etc/tombolo", path), content)
	}
	g.startNode(g.block(cliGuide, "tombolo config check node.yaml"))
	must(g.T, g.node.awaitReady(g.Context()))
	node, err := g.cluster.Client().CoreV1().Nodes().Get(g.Context(), edgeName, metav1.GetOptions{})
	must(g.T, err)
	if zone := node.Labels["topology.kubernetes.io/zone"]; zone != "shore" {
		g.Errorf("the node is in zone %q, and the file says shore", zone)
	}
	identity, err := g.cluster.NodeKubeconfig(edgeName)
	must(g.T, err)
	g.put(identity, g.desk.file("node.kubeconfig"))
	g.says(g.check(g.desk, g.block(checkGuide, "tombolo check --config")), `"kind": "CheckReport"`, "ssh://root@"+edgeAddress, `"node": "edge-1"`)
}

// withHelm has a pod of the cluster make the machine a node, and then one to which the machine would connect.
func withHelm(g *guide) {
	g.startWorker()
	charts, err := filepath.Abs(filepath.Join(repository, "charts"))
	must(g.T, err)
	must(g.T, os.Symlink(charts, g.desk.file("charts")))

	g.run(g.desk, g.block(helmGuide, "tombolo pki init"))
	for name, installed := range map[string]string{"ca.crt": "ca.crt", "host-edge-1.crt": "host.crt", "host-edge-1.key": "host.key"} {
		g.install(g.edge, filepath.Join("/etc/tombolo", installed), g.read(g.desk.file(filepath.Join("tombolo-pki", name))))
	}
	host := g.start(g.edge, "tombolo-host", g.unitCommand())
	g.run(g.desk, g.block(helmGuide, "kubectl create namespace tombolo"))
	g.values(g.setting(helmGuide, "# nodes.yaml"))
	g.says(g.run(g.desk, g.block(helmGuide, "helm install shore")), "STATUS: deployed", edgeName, "A pod runs on "+edgeName)
	g.run(g.desk, g.block(helmGuide, "kubectl drain edge-1"))
	must(g.T, host.Kill())
	g.run(g.desk, "kubectl delete namespace tombolo")

	// A reader has something that makes volumes for claims. There is no way from the machine to a Service here, so it joins above.
	g.values(g.replaced(g.setting(reverseGuide, "persistentVolumeClaim"), "persistentVolumeClaim: {claimName: edge-1-join}", "emptyDir: {}"))
	g.says(g.run(g.desk, g.block(chartGuide, "helm install shore")), "STATUS: deployed")
	g.says(g.retried(g.desk, g.block(reverseGuide, "kubectl -n tombolo exec")), "tombolo host join tombolo1.", "@"+deskName+":8470")
	g.run(g.desk, "helm uninstall shore --namespace tombolo")
}

// startWorker makes the desk a node of the cluster as well, on which pods have the network of the testbed and the image of the program.
func (g *guide) startWorker() {
	g.Helper()
	const worker = "desk"
	must(g.T, g.desk.host.StartContainerd(g.Context()))
	s := &site{env: g.node.env, name: worker, host: g.desk.host}
	must(g.T, s.env.importImage(g.T, s))
	identity, err := g.cluster.NodeKubeconfig(worker)
	must(g.T, err)
	s.nodeProc = g.start(g.desk, "worker", fmt.Sprintf("tombolo node --name %s --kubeconfig %s --host unix://%s --client-ca-file %s --register-with-taints=",
		worker, identity, g.desk.host.ContainerdSocket(), g.cluster.CAFile()))
	must(g.T, s.awaitReady(g.Context()))
}

// unitCommand is what the unit of tombolo host starts, with the program where it is here.
func (g *guide) unitCommand() string {
	g.Helper()
	_, after, found := strings.Cut(g.read(unitFile), "ExecStart=/usr/local/bin/")
	command, _, ends := strings.Cut(after, "\n#")
	if !found || !ends {
		g.Fatal("the unit starts something else")
	}
	return command
}

// values writes nodes.yaml, with what the testbed lacks: a registry with the image, a route to the addresses of Services.
func (g *guide) values(shown string) {
	g.Helper()
	server, err := url.Parse(g.cluster.Server())
	must(g.T, err)
	must(g.T, os.WriteFile(g.desk.file("nodes.yaml"), []byte(fmt.Sprintf(`%s
image: {tag: %s, pullPolicy: Never}
nodeSelector: {kubernetes.io/hostname: desk}
extraEnv:
  - {name: KUBERNETES_SERVICE_HOST, value: %q}
  - {name: KUBERNETES_SERVICE_PORT, value: %q}
`, shown, imageVersion, server.Hostname(), server.Port())), 0o600))
}
