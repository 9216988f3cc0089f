# Everything that a fresh machine needs is Go and Python's pip; Envoy is found or installed by scripts/find-envoy.sh.
SHELL := /bin/bash
.DEFAULT_GOAL := help

GO ?= go
GOLANGCI_LINT_VERSION ?= v2.15.0
GOVULNCHECK_VERSION ?= v1.9.0
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.release=$(VERSION)
FUZZTIME ?= 20s

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

.PHONY: build
build: ## build bin/tidemark
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/tidemark ./cmd/tidemark

.PHONY: demo
demo: build ## play a coding session through a real Envoy, four ways
	@ENVOY_BIN="$$(scripts/find-envoy.sh)" bin/tidemark demo

.PHONY: test
test: envoy ## all tests, the end-to-end ones on a real Envoy; those with Chromium and Prometheus where they can be had
	@scripts/find-chromium.sh >/dev/null || echo "no Chromium: the tests of the page skip what needs one"
	@scripts/find-prometheus.sh >/dev/null || echo "no Prometheus: examples/prometheus skips what needs one"
	ENVOY_BIN="$$(scripts/find-envoy.sh)" TIDEMARK_REQUIRE_ENVOY=1 $(GO) test ./...

.PHONY: test-short
test-short: ## tests that need no Envoy
	$(GO) test -short ./...

.PHONY: test-race
test-race: ## the concurrent packages under the race detector
	$(GO) test -race ./extproc/... ./pipeline/... ./state/... ./internal/...

.PHONY: e2e
e2e: envoy ## end-to-end tests alone
	ENVOY_BIN="$$(scripts/find-envoy.sh)" TIDEMARK_REQUIRE_ENVOY=1 $(GO) test -count=1 -v ./envoy/...

.PHONY: clients
clients: envoy ## real clients from npm through a real Envoy; fails where one cannot be installed
	ENVOY_BIN="$$(scripts/find-envoy.sh)" TIDEMARK_REQUIRE_ENVOY=1 TIDEMARK_REQUIRE_CLIENTS=1 $(GO) test -count=1 -v ./envoy/clients

.PHONY: alerts
alerts: ## the dashboards' queries and the alert rules on a real Prometheus; fails where there is none
	TIDEMARK_REQUIRE_PROMETHEUS=1 $(GO) test -count=1 ./examples/grafana ./examples/prometheus

.PHONY: dashboards
dashboards: ## make the Grafana dashboards anew
	$(GO) test -count=1 ./examples/grafana -run TestDashboards -update

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME: a time, or a number of runs as in 3000x
	@grep -rlE '^func Fuzz' --include='*_test.go' . | while read -r file; do \
	  for f in $$(sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$$file"); do \
	    echo "$$(dirname "$$file") $$f"; \
	    $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s "$$(dirname "$$file")" || exit 1; \
	  done; \
	done

.PHONY: soak
soak: ## the random agent against the simulator, many scenarios
	$(GO) test -count=1 -timeout 60m -run 'TestAgent' ./pipeline -rapid.checks=3000

.PHONY: bench
bench: envoy ## benchmarks; BenchmarkUnit is what the others are divided by
	$(GO) test -run '^$$' -bench . -benchmem ./pipeline ./pipeline/transcript
	ENVOY_BIN="$$(scripts/find-envoy.sh)" $(GO) test -run '^$$' -bench . -benchtime 3s ./envoy

.PHONY: lint
lint: ## the linters, which also enforce the import rules
	@command -v golangci-lint >/dev/null || $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	PATH="$$PATH:$$($(GO) env GOPATH)/bin" golangci-lint run

.PHONY: vuln
vuln: ## known vulnerabilities in what the code calls, the Go release that builds it included
	$(GO) run golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION) ./...

.PHONY: validate
validate: build envoy ## every YAML under examples/ and envoy/ through tidemark check and Envoy itself
	ENVOY_BIN="$$(scripts/find-envoy.sh)" TIDEMARK_REQUIRE_ENVOY=1 $(GO) test -count=1 -run 'Example|Validate' ./envoy/... ./examples/... ./internal/check/...

.PHONY: docs
docs: ## regenerate what is generated from the code
	$(GO) test -count=1 ./filters -run TestGatesPage -write
	$(GO) test -count=1 ./internal/serverconfig -run TestGenerated -update
	$(GO) test -count=1 ./pipeline/cache -run TestPricesPage -update
	$(GO) test -count=1 ./internal/observe -run TestMetricsPage -update
	$(GO) test -count=1 ./internal/event -run TestSchema -update
	$(GO) test -count=1 ./internal/board -run TestGatesOfThePage -update

.PHONY: pictures
pictures: ## take the README's pictures of the page anew, in a real Chromium
	TIDEMARK_REQUIRE_CHROMIUM=1 $(GO) test -count=1 ./internal/board -run TestPageLooks -update

.PHONY: image
image: ## build the container image
	docker build --build-arg VERSION=$(VERSION) -t tidemark:$(VERSION) .

.PHONY: envoy
envoy:
	@scripts/find-envoy.sh >/dev/null
