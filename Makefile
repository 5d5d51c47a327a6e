# Freshet. `make demo` needs Go, git and make, `make test` a C compiler with its headers, too; scripts/setup says what else tests want, and as root installs it.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
PLATFORMS   := linux/amd64 linux/arm64 darwin/arm64
TOOL        := go tool -modfile=tools/go.mod
STATIC      := CGO_ENABLED=0
ARGS        ?=# of demo, paper, plans, scale, rivals, cpu, big, simlab: make demo ARGS='--nodes 4 --size 64MiB'
TESTFLAGS   ?=# of go test: make test TESTFLAGS='-count=1 -v'
# Packages that run in one goroutine, tests included (deps_test.go looks): rules, and whole broadcasts of 1,000 nodes simulated by them.
# The race detector has nothing to find there, and makes them take ten times as long.
ALONE       := unit piece steal exchange internal/account internal/form topo sim internal/picture internal/lp planner internal/scenario internal/report bench/scale
# Packages some of whose tests are skipped, or code replaced, under the race detector: also run without it. Tests of how much time a swarm takes, how soon a flooded hub hears others, and calls that it cannot see.
MEASURED    := internal/swarm internal/landing internal/wake internal/control
FUZZTIME    ?= 10s
SCANTIME    ?= 1m
.PHONY: help demo build test unit lint cross fuzz scan faults bench paper plans scale rivals cpu big simlab setup clean

help: ## this list
	@sed -nE 's/^([a-z]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 16

demo: build ## an object leaves a store and arrives on 8 nodes, by four methods, side by side
	bin/freshet demo $(ARGS)

build: ## bin/freshet, static; on Linux also bin/freshet-lab
	@scripts/setup build
	$(STATIC) go build -trimpath -o bin/freshet ./cmd/freshet
	@[ "$$(go env GOOS)" != linux ] || $(STATIC) go build -trimpath -o bin/freshet-lab ./cmd/freshet-lab

test: setup lint cross unit ## everything that must hold: lint, builds for all platforms, all tests

unit: ## all tests, under the race detector where anything runs beside anything (lint has vetted them)
	@failed=0; $(STATIC) go test -vet=off -timeout 15m $(TESTFLAGS) $(ALONE:%=./%) $(MEASURED:%=./%) || failed=1; \
	CGO_ENABLED=1 go test -race -vet=off -timeout 15m $(TESTFLAGS) $$(go list ./... | grep -vxFf <(go list $(ALONE:%=./%))) || failed=1; \
	exit $$failed

lint: ## gofmt, go vet for all platforms, staticcheck, govulncheck where its database is reachable
	@owed=$$(gofmt -l .); [ -z "$$owed" ] || { echo "gofmt -w is owed by:" $$owed; exit 1; }
	@for p in $(PLATFORMS); do echo "go vet $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} $(STATIC) go vet -trimpath ./...; done
	$(TOOL) staticcheck ./...
	go run -C tools ./vulncheck -C .. ./...

cross: ## bin/freshet-OS-ARCH for all platforms
	@for p in $(PLATFORMS); do echo "go build $$p"; GOOS=$${p%/*} GOARCH=$${p#*/} \
	  $(STATIC) go build -trimpath -o bin/freshet-$${p/\//-} ./cmd/freshet; done

fuzz: ## each fuzz target for FUZZTIME (10s)
	FUZZTIME=$(FUZZTIME) scripts/fuzz

scan: ## what scanners and fuzzers do, at the ports of running nodes for SCANTIME (1m), while jobs run
	go test -count=1 -v -timeout 30m -run '^TestScan$$' ./cmd/freshet -scan $(SCANTIME)

bench: ## all Go benchmarks
	go test -run '^$$' -bench . -benchmem ./...

paper: setup ## the paper's experiment in a laboratory of networks, as root; hours: make paper ARGS='--scale 1'
	go run ./bench/broadcast $(ARGS)

rivals: setup ## Freshet beside other ways, in a laboratory of networks, as root; hours: make rivals ARGS='--cells medium'
	scripts/rivals
	go run ./bench/rivals $(ARGS)

cpu: setup ## processor time of a node that receives and gives one copy, beside others, as root; 20 minutes: make cpu ARGS='--runs 1'
	scripts/rivals
	go run ./bench/cpu $(ARGS)

plans: ## the planner's paper's 36 conditions on five kinds of networks; 4 hours, in parts: docs/plan.md; ARGS=times: with a clock, 20 minutes
	go run ./bench/planner $(ARGS)

scale: ## broadcasts to up to 10,000 nodes, simulated, and how far they are from their bounds; an hour: make scale ARGS='--nodes 1000'
	go run ./bench/scale $(ARGS)

faults: setup ## what happens when something breaks, in a laboratory of networks, as root; some minutes: docs/faults.md
	go test -count=1 -timeout 20m -v ./internal/lab/cluster

big: ## 1 GiB and 4 GiB to 8 agents, 5 times: their memory stays bounded; 40 GiB free in $TMPDIR or ARGS='--dir DIR'
	go run ./bench/big $(ARGS)

simlab: ## twelve scenarios in a laboratory of networks, as root, and simulated; 10 minutes: make simlab ARGS=bench/simlab/scenarios/05-stream-8.yaml
	go run ./bench/simlab run $(or $(ARGS),bench/simlab/scenarios/*.yaml)
	go run ./bench/simlab compare

setup: ## what the tests need from outside: apt packages (as root), tools by the Go module proxy
	@scripts/setup test

clean: ## remove what make built
	rm -rf bin
