// Copyright The Tombolo Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

// Key names a block of commands by its document and its first line.
type Key struct{ File, First string }

// Key of the block.
func (b Block) Key() Key { return Key{b.File, b.First()} }

const (
	readme      = "README.md"
	chartGuide  = "charts/tombolo/README.md"
	checkGuide  = "docs/check.md"
	cliGuide    = "docs/cli.md"
	policyGuide = "docs/host-policy.md"
	helmGuide   = "docs/install-helm.md"
	reverse     = "docs/link-reverse.md"
	ssh         = "docs/link-ssh.md"
	firstHour   = "TestFirstHour"
	demo        = "TestDemo"
	makeTargets = "it is how tests are run, and what would run this one"
)

// Run are the blocks that end-to-end tests read from the document and run as they are, each with the test.
func Run() map[Key]string {
	return map[Key]string{
		{readme, "make demo"}: demo,

		{readme, "make build"}:       firstHour,
		{readme, "tombolo pki init"}: firstHour,
		{readme, "tombolo host --tls-cert-file host-edge-1.crt --tls-private-key-file host-edge-1.key --client-ca-file ca.crt --node-name edge-1"}: firstHour,
		{readme, "umask 077"}: firstHour,
		{readme, `tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --cert-dir /var/lib/tombolo-node \`}: firstHour,
		{readme, "kubectl create -f - <<END"}: firstHour,
		{readme, "kubectl get pod hello"}:     firstHour,

		{policyGuide, `tombolo host --policy /etc/tombolo/policy.yaml \`}:                                                                          firstHour,
		{checkGuide, "tombolo check unix:///run/containerd/containerd.sock"}:                                                                       firstHour,
		{checkGuide, "tombolo check tls://192.0.2.10:8470 --host-ca-file ca.crt --host-cert-file node-edge-1.crt --host-key-file node-edge-1.key"}: firstHour,
		{checkGuide, "tombolo check --config /etc/tombolo/node.yaml --kubeconfig node.kubeconfig -o json"}:                                         firstHour,
		{cliGuide, "tombolo config default node > node.yaml"}:                                                                                      firstHour,
		{cliGuide, "tombolo config check node.yaml"}:                                                                                               firstHour,

		{reverse, "tombolo pki init"}: firstHour,
		{reverse, `tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --host reverse://edge-1 --listen :8470 \`}: firstHour,
		{reverse, `tombolo host --connect node.example.com:8470 \`}:                                                                  firstHour,
		{reverse, `tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --join-dir /var/lib/tombolo-join \`}:       firstHour,
		{reverse, "tombolo token create --join-dir /var/lib/tombolo-join --endpoint node.example.com:8470"}:                          firstHour,
		{reverse, "tombolo host join tombolo1.….….…@node.example.com:8470"}:                                                          firstHour,

		{ssh, `ssh-keygen -t ed25519 -N "" -f tombolo-ssh`}:                                                            firstHour,
		{ssh, "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"}:                                                      firstHour,
		{ssh, "mkdir -p -m 700 /root/.ssh"}:                                                                            firstHour,
		{ssh, "echo 'edge ALL=(root) NOPASSWD: ALL' > /etc/sudoers.d/tombolo"}:                                         firstHour,
		{ssh, `tombolo node --name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig --host ssh://root@192.0.2.10 \`}: firstHour,

		{helmGuide, "tombolo pki init"}:                                                                                               firstHour,
		{helmGuide, "kubectl create namespace tombolo"}:                                                                               firstHour,
		{helmGuide, "helm install shore charts/tombolo --namespace tombolo --values nodes.yaml --wait"}:                               firstHour,
		{helmGuide, "kubectl drain edge-1 --ignore-daemonsets --delete-emptydir-data"}:                                                firstHour,
		{chartGuide, "helm install shore charts/tombolo --namespace tombolo --create-namespace --values nodes.yaml"}:                  firstHour,
		{reverse, "kubectl -n tombolo exec deployment/shore-tombolo-edge-1 -- tombolo token create --endpoint node.example.com:8470"}: firstHour,
	}
}

// RunBy returns the blocks of the documents in root that an end-to-end test has to run.
func RunBy(root, test string) (map[Key]Block, error) {
	all, err := All(root)
	if err != nil {
		return nil, err
	}
	run, out := Run(), map[Key]Block{}
	for _, b := range all {
		if b.IsShell() && run[b.Key()] == test {
			out[b.Key()] = b
		}
	}
	return out, nil
}

// NotRun are the other blocks of commands, each with the reason why no test runs it. All are looked at by the shell, and their tombolo
// commands by tombolo.
func NotRun() map[Key]string {
	return map[Key]string{
		{"CONTRIBUTING.md", "make help        # all targets"}: makeTargets,

		{helmGuide, "systemctl enable --now tombolo-host"}: "it wants systemd: make e2e-vm",
	}
}
