# Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
# Names for people; the work stands in tools/*.sh. Each target first installs what it needs.
.DEFAULT_GOAL := help
.PHONY: help deps demo demo-wire quick test test-all asan tsan fuzz bench soak lint format clean

SUITE ?= core
PHASES ?=
ROOM ?=
MINUTES ?= 10

help:  ## this list
	@awk -F ':  ## ' '/^[a-z-]+:  ## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

deps:  ## install everything that any target needs
	@tools/deps.sh

demo:  ## trains a model on parameter servers: over stock grpc, grpc++, tensor_fuse, star_server
	@tools/demo.sh

demo-wire:  ## two processes exchange messages and tensors, beside raw sockets
	@tools/demo.sh wire

quick:  ## after an edit: build, and test one room, ROOM=p2p, or all of them
	@tools/quick.sh $(ROOM)

test:  ## what finds most mistakes: C++, and TensorFlow in short; PHASES="dev smoke asan" chooses
	@tools/test.sh $(or $(PHASES),test)

test-all:  ## all tests, under all builds; PHASES=rest leaves out what make test runs
	@tools/test.sh $(or $(PHASES),all)

asan:  ## tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/test.sh asan

tsan:  ## tests under ThreadSanitizer
	@tools/test.sh tsan

fuzz:  ## each decoder's fuzz target, a million executions
	@tools/test.sh fuzz

bench:  ## measure beside peers; SUITE=core, p2p, collective, ps (training), mwms (mirrored workers) or scale
	@tools/bench.sh $(SUITE)

soak:  ## train under random faults; MINUTES=10 over each protocol, SOAK="--seed 7 --protocol grpc++" for more
	@tools/soak.sh --minutes $(MINUTES) $(SOAK)

lint:  ## format, clang-tidy, ruff, shellcheck, the room rules
	@tools/lint.sh

format:  ## apply clang-format and ruff format
	@tools/lint.sh --fix

clean:  ## remove what was built and measured
	rm -rf build bench/out
