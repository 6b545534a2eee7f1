# Every target works from a clean clone: parts and tools are built into a cache folder outside the repository
# ($TOMBOLO_CACHE, else ~/.cache/tombolo) the first time they are needed, and system packages are installed by name.
# The only things expected are Go, a C compiler, git and make; e2e and demo need root on Linux.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo v0.0.0)
PARTS := go run -C $(CURDIR)/tools ./cmd/parts
# Puts the parts on the PATH of one command.
WITH_PARTS := PATH="$$($(PARTS) bin):$$PATH"
# Packages and flags for a run on a part of the tree: make unit PKG=./cri/... ARGS='-run Stop'
PKG ?= ./...
E2E ?= ./test/...
ARGS ?=
# What make fuzz runs, and how many times each (or for how long: FUZZTIME=1m). Go may fail a target whose time is up while it is busy.
# New inputs are hardly made smaller: Go takes a minute for each whose coverage varies, as that of goroutines does.
# host/local/probe is left out: an answer that never ends takes as long as a probe may.
FUZZ ?= ./host/local ./host/local/fileset ./host/policy ./lifecycle/image/... ./lifecycle/podenv ./cri ./link/sshlink
FUZZTIME ?= 3000x

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build bin/tombolo
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)" -o bin/ ./cmd/tombolo

.PHONY: image
image: ## Assemble bin/tombolo-image.tar, the container image for amd64 and arm64, and its bills of materials, without a builder
	go run -C tools ./cmd/image -version $(VERSION) -out $(CURDIR)/bin/tombolo-image.tar

.PHONY: image-dockerfile
image-dockerfile: ## Build the Dockerfile with buildah, twice, and compare it with the image that make image assembles; on Debian as root
	@$(PARTS) system buildah busybox-static ca-certificates
	go run -C tools ./cmd/dockerfile -version $(VERSION)

.PHONY: demo
demo: build ## Show it: a cluster, a remote host, and a pod that kubectl creates, reads, enters and deletes; needs root
	@$(PARTS) build testbed
	@$(WITH_PARTS) go run ./test/demo up

.PHONY: demo-down
demo-down: ## Remove the demo
	@go run ./test/demo down

.PHONY: test
test: lint unit fuzz e2e conformance-quick ## Lint, unit tests with the race detector, fuzz tests, end-to-end tests, conformance-quick

.PHONY: unit
unit: ## Unit tests with the race detector (PKG=./cri/... ARGS='-run Stop')
	@$(PARTS) build unit
	$(WITH_PARTS) gotestsum --format pkgname-and-test-fails -- -race $(ARGS) $(PKG)
	cd tools && $(WITH_PARTS) gotestsum --format pkgname-and-test-fails -- -race ./...

.PHONY: fuzz
fuzz: ## Fuzz what reads foreign bytes: paths, references, docker configurations, logs (FUZZTIME=1m FUZZ=./host/...)
	@work="$$(mktemp -d)"; trap 'rm -rf "$$work"' EXIT; \
	for dir in $$(go list -f '{{if .TestGoFiles}}{{.Dir}}{{end}}' $(FUZZ)); do \
		targets="$$(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go | cut -c6- || true)"; \
		[[ -n "$$targets" ]] || continue; \
		go test -c -fuzz Fuzz -o "$$work/fuzz.test" "$$dir"; \
		for target in $$targets; do \
			echo "$$target in $$dir"; \
			(cd "$$dir" && "$$work/fuzz.test" -test.run '^$$' -test.fuzz "^$$target\$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 10x -test.fuzzcachedir "$$work/cache"); \
		done; \
	done

.PHONY: e2e
e2e: ## End-to-end tests on real parts; needs root (E2E=./test/e2e ARGS='-run Logs')
	@$(PARTS) build unit testbed
	$(WITH_PARTS) TOMBOLO_E2E=1 gotestsum --format testname -- -count=1 -p 1 -timeout 45m $(ARGS) $(E2E)

.PHONY: e2e-vm
e2e-vm: ## End to end on a virtual machine with systemd, cgroup v2 and a kernel of its own, on Debian as root; 10 minutes, the first time more
	@$(PARTS) build unit testbed vm
	$(WITH_PARTS) TOMBOLO_E2E=1 TOMBOLO_E2E_VM=1 gotestsum --format standard-verbose -- -count=1 -timeout 60m $(ARGS) ./test/vm

.PHONY: conformance
conformance: build ## Compare with the real kubelet by Kubernetes' own suite; needs root, an hour or more (ARGS='-slow')
	@$(PARTS) build testbed conformance compare
	$(WITH_PARTS) go run ./test/conformance $(ARGS)

.PHONY: conformance-quick
conformance-quick: build ## The tests of that suite in test/conformance/quick.txt, each of which must pass; needs root
	@$(PARTS) build testbed conformance
	$(WITH_PARTS) go run ./test/conformance -quick $(ARGS)

.PHONY: bench
bench: build ## Measure bare CRI, the real kubelet and Tombolo in turn; needs root and a quiet machine (ARGS='-rounds 1')
	@$(PARTS) build testbed compare
	$(WITH_PARTS) go run ./test/bench $(ARGS)

.PHONY: bench-links
bench-links: ## Measure calls beside a log and a forwarded port on one link; needs a quiet machine (ARGS='-rate 20 -kinds reverse')
	go run ./test/bench/links $(ARGS)

.PHONY: lint
lint: ## Static checks
	@$(PARTS) build lint
	$(WITH_PARTS) golangci-lint run --allow-parallel-runners ./...
	cd tools && $(WITH_PARTS) golangci-lint run --allow-parallel-runners --config ../.golangci.yml ./...

.PHONY: generate
generate: ## Generate code from the protocol definitions
	@$(PARTS) build generate
	$(WITH_PARTS) buf generate

.PHONY: verify
verify: generate ## Fail if generated code or go.mod is stale
	@git diff --exit-code -- '*.pb.go'
	@new="$$(git ls-files --others --exclude-standard -- '*.pb.go')"; [[ -z "$$new" ]] || { echo "not committed: $$new" >&2; exit 1; }
	@$(WITH_PARTS) buf lint
	@$(WITH_PARTS) buf format --diff --exit-code
	go mod tidy -diff
	go vet ./...
	cd tools && go mod tidy -diff && go vet ./...

.PHONY: clean
clean: ## Remove bin and what killed testbeds left (the cache stays)
	rm -rf bin
	go run ./test/testbed/cmd/testbed clean
