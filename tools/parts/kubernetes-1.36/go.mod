module github.com/tombolo-dev/tombolo/tools/parts/kubernetes-1.36

go 1.26.0

require k8s.io/kubernetes v1.36.3
