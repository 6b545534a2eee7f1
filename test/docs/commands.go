// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

// Key names a block of commands by its document and its first line.
type Key struct{ File, First string }

// Key of the block.
func (b Block) Key() Key { return Key{b.File, b.First()} }

const (
	readme        = "README.md"
	helmGuide     = "docs/install-helm.md"
	reverse       = "docs/link-reverse.md"
	ssh           = "docs/link-ssh.md"
	makeTargets   = "it is how tests are run, and what would run this one"
	byReleaseTest = "TestHelmRelease of test/e2e does the same with an image, names and addresses of the testbed"
	byLinkTests   = "the end-to-end tests of this link do the same with addresses, ports and folders of the testbed"
)

// Run are the blocks that end-to-end tests run as they are.
func Run() []Key {
	return nil
}

// NotRun are the other blocks of commands, each with the reason why no test runs it. All are looked at by the shell, and their tombolo
// commands by tombolo.
func NotRun() map[Key]string {
	return map[Key]string{
		{readme, "make demo"}:                                 "it builds Kubernetes, and is the testbed with another face",
		{readme, "make build"}:                                "the tests build the program in the same way; make conformance-quick runs this",
		{"CONTRIBUTING.md", "make help        # all targets"}: makeTargets,

		{readme, "tombolo pki init"}: byLinkTests,
		{readme, "tombolo host --tls-cert-file host-edge-1.crt --tls-private-key-file host-edge-1.key --client-ca-file ca.crt"}: byLinkTests,
		{readme, "umask 077"}: byLinkTests,
		{readme, `tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --cert-dir /var/lib/tombolo-node \`}: byLinkTests,
		{readme, "kubectl create -f - <<END"}: byLinkTests,
		{readme, "kubectl get pod hello"}:     byLinkTests,

		{"docs/check.md", "tombolo check unix:///run/containerd/containerd.sock"}:                                                    "TestCheck… of test/e2e do, with links of the testbed",
		{"docs/cli.md", "tombolo config default node > node.yaml"}:                                                                   "the last line runs for ever; the tests of cmd/tombolo run the others",
		{"docs/host-policy.md", "tombolo host --policy /etc/tombolo/policy.yaml …"}:                                                  "it leaves out what every host needs",
		{"charts/tombolo/README.md", "helm install shore charts/tombolo --namespace tombolo --create-namespace --values nodes.yaml"}: "docs/install-helm.md has the same with --wait",
		{helmGuide, "systemctl enable --now tombolo-host"}:                                                                           "it wants systemd: make e2e-vm",

		{helmGuide, "tombolo pki init"}:                                                                 byReleaseTest,
		{helmGuide, "kubectl create namespace tombolo"}:                                                 byReleaseTest,
		{helmGuide, "helm install shore charts/tombolo --namespace tombolo --values nodes.yaml --wait"}: byReleaseTest,
		{helmGuide, "kubectl drain edge-1 --ignore-daemonsets --delete-emptydir-data"}:                  byReleaseTest,

		{reverse, "tombolo pki init"}: byLinkTests,
		{reverse, `tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --host reverse://edge-1 --listen :8470 \`}:  byLinkTests,
		{reverse, `tombolo host --connect node.example.com:8470 \`}:                                                                   byLinkTests,
		{reverse, "tombolo host join tombolo1.….….…@node.example.com:8470"}:                                                           byLinkTests,
		{reverse, "kubectl -n tombolo exec deployment/shore-tombolo-edge-1 -- tombolo token create --endpoint node.example.com:8470"}: byLinkTests,

		{ssh, `ssh-keygen -t ed25519 -N "" -f tombolo-ssh`}:                                                            byLinkTests,
		{ssh, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"}:                                                      "it shows a key of this machine, to be compared by people",
		{ssh, "cat tombolo-ssh.pub >> /root/.ssh/authorized_keys"}:                                                     byLinkTests,
		{ssh, "echo 'edge ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/tombolo"}:                                         byLinkTests,
		{ssh, `tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --host ssh://root@192.0.2.10 \`}: byLinkTests,
	}
}
