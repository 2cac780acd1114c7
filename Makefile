# minik8s: the commands people type. Everything else is `cargo`.
#
#   make up      set up this machine, build, and leave a one-node cluster running
#   make down    stop that cluster and its pods (its data stays; `make purge` removes it)
#   make test [SEED=n]   set up this machine and run every check and test; SEED repeats the faults of an earlier run
#   make test-fast   only what needs no root and takes minutes, for while you work
#   make fuzz [INPUTS=n] [SEED=n]   break the inputs of every reader of foreign bytes, a million times each
#   make bench   measure, against real peers where there are any
#   make chaos [SEED=n] [MINUTES=n]   break a cluster of three nodes at random for minutes, then check every promise
#   make chaos SERVERS=3   the same with three servers on one etcd, which die, stop and are cut off from it
#   make lab NODES=3   a cluster of several nodes on this machine; `make lab-down` removes every trace
#   make install [PREFIX=/usr/local]   program and systemd units; `minik8s uninstall` takes them back
#   make deb     a Debian package of the same, in target/
#   make images  build the small container images that tests and examples use

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export DATA_DIR ?= /var/lib/minik8s
export PORT ?= 6443
export SERVER_FLAGS ?=
export PREFIX ?= /usr/local
BINARY := target/release/minik8s

.PHONY: help setup build up down purge install deb lab lab-down tidy lint test test-fast chaos fuzz bench images

help:
	@sed -n 's/^#   //p' Makefile

setup:
	@scripts/setup

build: setup
	@scripts/build

up: build
	@scripts/up $(BINARY)

down:
	@scripts/down

purge: down
	@scripts/down --purge

install: build
	@packaging/install $(BINARY)

deb: build
	@packaging/deb $(BINARY) target

lab: build
	@scripts/lab up $(or $(NODES),3)
	@scripts/lab-ready $(or $(NODES),3)

lab-down:
	@scripts/lab down

images: setup
	@images/build

tidy: setup
	cargo fmt --all --check
	scripts/check-dependencies
	@if command -v cargo-deny >/dev/null; then cargo deny --locked check; \
	  else echo "cargo-deny is not installed: advisories about dependencies are NOT checked here"; fi

lint: tidy
	cargo clippy --workspace --all-targets --locked -- -D warnings

# Clippy looks on while the tests are compiled.
test: tidy
	@scripts/setup --test
	@scripts/test

# Without root, containers and network.
test-fast:
	cargo nextest run --workspace --locked --lib --bins

# The same test that `make test` runs for half a minute. A seed that is not given is new, and printed.
chaos: setup
	$(if $(filter-out 3,$(SERVERS)),$(error SERVERS is 3 or not given))
	CHAOS_SEED=$(SEED) STORM_SEED=$(SEED) $(if $(SERVERS),STORM,CHAOS)_MINUTES=$(or $(MINUTES),10) \
	  cargo test --locked -p minik8s --test e2e -- --nocapture --exact \
	  $(if $(SERVERS),ha::storm::histories_are_linearizable_while_servers_die,chaos::chaos)

# The same tests that `make test` runs with a few thousand inputs; with the program, whose dependencies they then share.
fuzz: setup
	FUZZ_SEED=$(or $(SEED),$(shell date +%s)) FUZZ_INPUTS=$(or $(INPUTS),1000000) \
	  cargo test --release --locked --lib --bins --test api -p minik8s -p minik8s-apiserver -p minik8s-kubelet \
	  -p minik8s-network -p minik8s-proxy -p minik8s-functions -p minik8s-registry -p minik8s-authentication -p minik8s-authorization fuzz_ -- --nocapture

bench: build
	@scripts/setup --bench
	@scripts/bench
