# Everything here works on a fresh clone with nothing but Go installed, unless its line says otherwise.

# What `make flaky` runs, and how often.
TIER     ?= test
N        ?= 20
# The version of a release, vX.Y.Z. Without a tag it names the commit, so that clusters replace what a rebuilt image runs.
VERSION  ?= $(shell tools/version)
FUZZTIME ?= 60s
# How much `make scale` measures: pods come or go SCALE_RATE times a second for SCALE_SECONDS.
SCALE_NODES   ?= 5000
SCALE_PODS    ?= 100000
SCALE_RATE    ?= 100
SCALE_SECONDS ?= 120
# How much `make failover` measures, with each number of gateways in FAILOVER_REPLICAS: so many SIGKILLs of gateways, and
# so many of each other fault. A flow sends a message every FAILOVER_PERIOD_MS milliseconds: at 10, two cores have no time
# left, and the outages are those of programs that wait for it.
FAILOVER_KILLS     ?= 200
FAILOVER_FAULTS    ?= 20
FAILOVER_REPLICAS  ?= 2 3
FAILOVER_PERIOD_MS ?= 20
# How often `make throughput` measures each number of gateways with little CPU time.
THROUGHPUT_ROUNDS ?= 25
# Where the source is. A fork sets it to github.com/OWNER/NAME: images, charts, the command line, and addresses of downloads
# then name the fork.
SOURCE     ?= strait.dev/strait
# The image that the chart installs and the command line starts, without and with its tag. PLATFORMS is what it runs on.
REPOSITORY ?= $(patsubst github.com/%,ghcr.io/%,$(SOURCE))
TAG        ?= $(VERSION:v%=%)
IMAGE       = $(REPOSITORY):$(TAG)
PLATFORMS  ?= linux-amd64 linux-arm64
# What `make release` builds the command line for.
RELEASE_PLATFORMS ?= $(PLATFORMS) darwin-amd64 darwin-arm64 windows-amd64 windows-arm64
DIST    ?= dist
STAGING ?= bin/release

MODULE := $(shell sed -n 's/^module //p' go.mod)

# The revision goes into the binary where git may read this clone.
VCS   := $(shell git status >/dev/null 2>&1 && echo true || echo false)
FLAGS  = -trimpath -buildvcs=$(VCS) -ldflags "-s -w -X main.version=$(VERSION) -X $(MODULE)/k8s/install.Image=$(IMAGE)"

.DEFAULT_GOAL := help
.PHONY: help build demo test race test-k8s lab e2e nightly flaky vet lint fuzz conformance hostile failover throughput specs lab-guest scale generate bench bench-peer performance image image-name push image-docker release dist clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

build: ## build bin/strait, one static binary
	CGO_ENABLED=0 go build $(FLAGS) -o bin/strait ./cmd/strait

demo: build ## join two clusters with the same pod CIDR, in one process, without root
	bin/strait demo

test: ## run the core tests, the demo and, as root, a functional lab (10 minutes on a fresh machine, 4 warm)
	@test/run test

race: ## run the core tests under the race detector (7 minutes; needs a C compiler)
	@test/run race

test-k8s: ## run the tests on real API servers, those of the chart among them (7 minutes; 10 more to build the programs once)
	@test/run test-k8s

lab: ## run the lab in network namespaces (5 minutes; 10 more to build the programs once; needs root)
	@test/run lab

e2e: ## install, join, verify, upgrade and remove Strait on two real clusters (9 minutes; 25 more to build Kubernetes once; needs root)
	@test/run e2e

nightly: ## run everything that measures: guest, hostile, scale, long fuzzing (hours; needs root)
	@test/run nightly

flaky: ## run a tier (TIER, default test) N times (20), half of them beside two busy loops, and count failures per test
	@test/flaky $(TIER) $(N)

vet: ## check formatting, words and commit subjects, and run go vet with every build tag (2 minutes)
	@test/run vet

lint: ## what vet does, and run golangci-lint and actionlint (1 minute; 8 more to build it and the tree once)
	@test/run lint

fuzz: ## run every fuzz target for FUZZTIME each (60s)
	FUZZTIME=$(FUZZTIME) test/fuzz

conformance: ## print the tests of each rule, threat and fault of docs/evidence/conformance.md
	go test -count=1 -v -run Row ./internal/conformance

hostile: ## attack gateways during a transfer; writes docs/evidence/hostile.md (5 minutes; needs root)
	@test/install lab
	LAB_HOSTILE_REPORT=$(CURDIR)/docs/evidence/hostile.md go test -count=1 -v -timeout 15m -tags nightly -parallel 1 -run Hostile ./test/lab/hostile

failover: ## kill, stop and cut off gateways with flows through them; writes docs/evidence/failover.* (60 minutes; needs root)
	@test/install lab
	test/kube/prepare
	FAILOVER_KILLS=$(FAILOVER_KILLS) FAILOVER_FAULTS=$(FAILOVER_FAULTS) FAILOVER_REPLICAS="$(FAILOVER_REPLICAS)" FAILOVER_PERIOD_MS=$(FAILOVER_PERIOD_MS) \
		FAILOVER_VERSION=$(VERSION) FAILOVER_RESULTS=$(CURDIR)/docs/evidence/failover.json \
		go test -count=1 -v -timeout 6h -tags nightly -run FailoverMeasured ./test/clusters

throughput: ## measure what 1 to 4 gateways carry; writes docs/evidence/throughput.* (40 minutes; needs root)
	@test/install lab
	test/kube/prepare
	THROUGHPUT_ROUNDS=$(THROUGHPUT_ROUNDS) THROUGHPUT_VERSION=$(VERSION) THROUGHPUT_RESULTS=$(CURDIR)/docs/evidence/throughput.json \
		go test -count=1 -v -timeout 3h -tags nightly -run SeveralGatewaysMeasured ./test/clusters

specs: ## run Kubernetes' own specs on the virtual node; writes docs/evidence/kubernetes-specs.md (20 minutes; needs root)
	@test/install lab e2e
	test/kube/prepare etcd kube-apiserver e2e.test ginkgo agnhost $$(cat test/nodes/programs)
	SPECS_PAGE=docs/evidence/kubernetes-specs.md go test -count=1 -v -timeout 2h -tags nightly -run KubernetesOwnSpecs ./test/e2e

lab-guest: ## run the lab on a kernel with Geneve and WireGuard, in an emulated guest (10 minutes)
	@test/install lab guest
	test/guest/run-lab

scale: ## measure SCALE_NODES nodes (5000) and SCALE_PODS pods (100000) on a real API server (20 minutes; needs root)
	test/kube/prepare
	SCALE_NODES=$(SCALE_NODES) SCALE_PODS=$(SCALE_PODS) SCALE_RATE=$(SCALE_RATE) SCALE_SECONDS=$(SCALE_SECONDS) \
		go test -count=1 -v -timeout 2h -tags nightly ./test/scale

generate: ## make deep copies and CRDs of the API types, and the copies that the chart has, and the references in docs
	go generate ./k8s/...
	go run ./internal/dashboards charts/strait/dashboards
	go run ./internal/docgen k8s/api/crds > docs/reference/objects.md.new && mv docs/reference/objects.md.new docs/reference/objects.md
	go test -count=1 -run 'TheReferenceOfTheCommandLine|WrongInputs' ./cmd/strait -update
	go test -count=1 -run TheTableOfEnvironments ./operate/preflight -update

bench: build ## measure each layer's price, without root, in under 3 minutes; prints benchstat input
	bin/strait bench -o benchstat --html bin/bench.html

bench-peer: build ## measure against a peer and the machine's limits; writes docs/evidence/performance.* (10 minutes; needs root and the packages in test/packages)
	CGO_ENABLED=0 go build -o bin/wireguard-go golang.zx2c4.com/wireguard
	bin/strait bench peer --wireguard-go bin/wireguard-go --json docs/evidence/performance.json --report docs/evidence/performance.md

performance: build ## write docs/evidence/performance.md and its plots from docs/evidence/performance.json
	bin/strait bench peer --from docs/evidence/performance.json --report docs/evidence/performance.md

image: ## build the container image and the chart that installs it, as bin/strait.oci.tar for PLATFORMS and bin/strait.tgz, without Docker
	for platform in $(PLATFORMS); do \
		CGO_ENABLED=0 GOOS=$${platform%-*} GOARCH=$${platform#*-} go build $(FLAGS) -o bin/strait-$$platform ./cmd/strait || exit; \
	done
	go run ./internal/ociimage -o bin/strait.oci.tar -name $(IMAGE) -source https://$(SOURCE) $(PLATFORMS:%=bin/strait-%)
	go run ./internal/chartpack -o bin/strait.tgz -version $(TAG) -repository $(REPOSITORY) -source https://$(SOURCE) charts/strait

image-name: ## print the name of the image that make image builds
	@echo $(IMAGE)

push: ## push bin/strait.oci.tar to REPOSITORY (needs skopeo, and access to the registry)
	skopeo copy --all oci-archive:bin/strait.oci.tar docker://$(IMAGE)

image-docker: ## build the container image for this platform (needs docker)
	docker build --build-arg VERSION=$(VERSION) --build-arg IMAGE=$(IMAGE) --build-arg SOURCE=https://$(SOURCE) -t $(IMAGE) .

release: ## build all files of release VERSION (vX.Y.Z) in dist/, the same bytes each time (needs a clean clone)
	@test -z "$$(git status --porcelain)" || { echo "make release: the tree has changes, so that no other clone could build the same bytes; commit or remove them" >&2; exit 1; }
	@$(MAKE) --no-print-directory dist

dist:
	rm -rf $(DIST) $(STAGING) && mkdir -p $(DIST) $(STAGING)/man
	for platform in $(RELEASE_PLATFORMS); do \
		CGO_ENABLED=0 GOOS=$${platform%-*} GOARCH=$${platform#*-} go build $(FLAGS) -o $(STAGING)/$$platform/ ./cmd/strait || exit; \
	done
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) CGO_ENABLED=0 go run -tags man $(FLAGS) ./cmd/strait $(STAGING)/man
	go run ./internal/ociimage -o $(DIST)/strait-$(TAG)-image.oci.tar -name $(IMAGE) -source https://$(SOURCE) $(PLATFORMS:%=$(STAGING)/%/strait) >$(STAGING)/image
	go run ./internal/chartpack -o $(DIST)/strait-$(TAG).tgz -version $(TAG) -repository $(REPOSITORY) -digest $$(sed 's/.*@//' $(STAGING)/image) -source https://$(SOURCE) charts/strait
	go run ./internal/release -o $(DIST) -version $(VERSION) -source $(SOURCE) -programs $(STAGING) -man $(STAGING)/man

clean: ## remove what was built
	rm -rf bin dist
