# The commands of CONTRIBUTING.md by name. Each is one line that can also be typed; `make` alone lists them.

PKG  ?= ./...
RUN  ?= .
FUZZ ?= FuzzParseArgs
TIME ?= 30s

.DEFAULT_GOAL := help

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## the program, as ./countersign
	go build -trimpath -o countersign ./cmd/countersign

demo: ## the gate, stand-ins for LINE and Slack, and an agent, on this machine
	go run ./cmd/countersign demo

fast: format ## the fast loop: formatting, build, vet and all tests; no root, no browser, nothing to install but Go
	go build ./...
	go vet ./...
	go test ./...

whole: ## everything that CI does; installs Chromium and npm where they are missing, so as root or beforehand
	.ci/run

nightly: ## the same with what takes too long for each change: more rounds and draws, SQLite under the race detector too
	COUNTERSIGN_NIGHTLY=1 .ci/run

test: ## one package, one test: make test PKG=./internal/policy RUN=TestProblems
	go test -run '$(RUN)' $(PKG)

race: ## the same under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -run '$(RUN)' $(PKG)

golden: ## write the goldens of a package anew: make golden PKG=./channels/slack; then read git diff
	go test $(PKG) -update

fuzz: PKG = ./approval/args
fuzz: ## make fuzz PKG=./approval/args FUZZ=FuzzParseArgs TIME=30s
	go test -run '^$$' -fuzz '^$(FUZZ)$$' -fuzztime $(TIME) $(PKG)

browser: ## the tests that drive the pages, and the demo's, in Chromium
	go test -tags=browser ./internal/emulator ./internal/web

interop: ## the tests against other people's programs; COUNTERSIGN_INTEROP names their folder
	go test -tags=interop ./internal/interop

postgres: ## the tests on PostgreSQL, which they start themselves
	go test -tags=postgres ./internal/store/postgres
	go test -tags=postgres -run OnPostgreSQL ./internal/app

deploy: ## what is in deploy/, as promtool, systemd-analyze and docker compose read it; they must be installed
	promtool check config deploy/prometheus/prometheus.yml
	cd deploy/prometheus && promtool test rules countersign.rules_test.yml
	systemd-analyze security --offline=true --threshold=20 deploy/countersign.service | tail -n 1
	GRAFANA_PASSWORD=x docker compose -f deploy/compose.yaml -f deploy/compose.monitoring.yaml config --quiet

cross: ## does everything, tests included, compile for macOS and Windows?
	GOOS=darwin go vet ./...
	GOOS=windows go vet ./...

adk: ## the module client/adk
	cd client/adk && go vet ./... && go test ./...

vulnerabilities: ## known holes in Go and in the modules, where the program reaches them; asks the Go vulnerability database
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...
	cd client/adk && go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...

bench: ## one package's benchmarks: make bench PKG=./internal/policy; docs/benchmarks.md says how to read them
	go test -run '^$$' -bench . $(PKG)

format: ## fail where gofmt would change something
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted:"; echo "$$unformatted"; exit 1; fi

.PHONY: help build demo fast whole nightly test race golden fuzz browser interop postgres deploy cross adk vulnerabilities bench format
